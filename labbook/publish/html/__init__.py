"""From the Markdown of a note to the HTML of its page.

A note is untrusted text. `notes` limits its Markdown before it is rendered, `rendering` renders it as MkDocs does but
with one parser for all pages, `page_safety` sets the content security policy and inspects each finished page.
`code_blocks` and `cached_fragments` save time: plain code blocks without Pygments, and header and navigation rendered
once. `theme` sets the defaults of the theme.

Not here: what a page says (`publish/pages/`).
"""
