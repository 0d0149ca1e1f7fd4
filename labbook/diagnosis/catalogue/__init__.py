"""Loads the pages of known symptoms and matches them against evidence.

Start with `symptom_catalogue.load`, which returns the built-in pages of `labbook/symptoms/` with those of a notebook
on top, and `matcher.Matcher`, which returns the pages that fit an exception, a line or an exit status. `pattern` is
the template language of the pages: literal text with slots, matched in one pass without regular expressions.
`message_values` reads the quantities of a message (shapes, types, devices), `run_conditions` lists the names that
`when:` on a page may use, and `page_text` renders a page as Markdown.

The order among several matching pages is decided one level up, in `labbook.diagnosis.cause_ranking`.
"""
