"""Builds what a team reads from the notebook: the static site, its search, and reports.

Start with `site.site_build.build_site`, which reads the notebook through the index (`pages.site_data`), has the
generated pages written (`pages/`) and has MkDocs render them (`html/`); the search follows (`search/`). `plugin` is the
MkDocs plugin, which does the same for plain `mkdocs build`.

- `pages/`: what the pages say, as data and Markdown.
- `html/`: from Markdown to safe HTML.
- `search/`: the search of the site.
- `site/`: building the site, keeping it between builds, serving it.
- `document`: one note as HTML, PDF, Word, ...; `mail` sends it; `reports` writes the report of a period.

Modules marked "Pure" read and write no files: data in, Markdown out. Everything in a note is untrusted text. Layout is
in `templates/pages/`, words in `templates/words/`, scripts in `templates/site/`.
"""
