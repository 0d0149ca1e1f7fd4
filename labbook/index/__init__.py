"""The search index: one SQLite database (FTS5) over everything in `notes/`, rebuilt from the files if it is missing.

Start with `build.query_index`, which updates the index and runs one query, and with `query.search` and
`query.list_notes`, which answer `labbook search` and `labbook list`.

- `database` opens the file, and creates it if it is missing, outdated or damaged (`schema.sql`); `folders` finds
  changed files; `documents` turns one note into rows.
- `query_parser` reads conditions (`lr<0.02`, `status:failed`), phrases and words; `query_fields` knows their names and
  values; `query_error` refuses unknown ones; `sql_filters` writes conditions in SQL.
- `vocabulary` reads texts by meaning, from `words.txt`; `page_scores` scores the pages of the catalogue by it;
  `query_symptoms` finds the symptoms that a query is about.
- `entry_evidence` leaves out what a run does not have; `ranking` orders the results; `snippet` finds the line to show.
- `fix_outcomes` reads which runs were fixed and whether the failure came back; `cjk` splits Chinese, Japanese and
  Korean text.

The index is a cache: the Markdown files are the truth, and deleting it loses nothing. Proposing and confirming
fixes belongs to `fixes/`; the search of the built site belongs to `publish/`.
"""
