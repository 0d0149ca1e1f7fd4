"""Text of the notebook: how it is read, filled in and made safe.

`frontmatter` reads and writes the YAML block at the top of a note (the only module that imports PyYAML), `entry_text`
keeps generated blocks and hand-written text of an entry apart. `templates` renders pages (the only module that imports
Jinja2), in a process with limits (`limited`) where a template belongs to the notebook. `sentences` fills the sentences
of a language, and `escape` has one function for each position in a page.

Not here: what an entry says (`report/entry/`).
"""
