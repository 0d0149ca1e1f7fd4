"""The search index: one SQLite database (FTS5) over everything in `notes/`, rebuilt from the files when it is missing.

Start with `build.ask`, which brings the index in step with the changed files and runs one question, and
`query.search`, which answers `labbook search` and `labbook list`.

- `database` opens the file, makes it when it is missing, outdated or damaged (`schema.sql`); `folders` finds changed
  files; `documents` turns one note into rows.
- `query_parser` reads filters `key:value`, phrases and words; `query_symptoms` finds the symptoms that a question is
  about; `sql_filters` writes the filters in SQL; `ranking` orders the answers; `snippet` finds the line to show.
- `fix_outcomes` reads which runs were fixed and whether the fix held; `cjk` splits Chinese, Japanese and Korean text.

The index is a cache: the Markdown files are the truth, and deleting it loses nothing. What a fix means for a failure
belongs to `fixes/`; the search of the built site is made by `publish/`.
"""
