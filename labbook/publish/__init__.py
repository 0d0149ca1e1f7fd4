"""Builds what a team reads from the notebook: the static site, its search, and weekly reports.

Start with `site.build_site`, which reads the notebook through the index (`site_data`), creates the generated pages
(`pages`, `symptom_pages`, `run_table`, `month_pages`, `compare_data`, `feed`) and has MkDocs render them.
`incremental_build` renders only pages that would differ (`build_record`, `build_cache`, `site_files`, `rendering`),
with workers in `worker_processes`; `plugin` does the same for plain `mkdocs build`.

- `search_records`, `search_source`, `search_words`, `search_shards`, `search_service`: the search, by Pagefind.
- `page_safety` sets the content security policy and inspects each finished page; `notes` makes a note safe to render.
- `serving` and `watch` serve the site on this machine while notes change; `weekly` writes the report of a week.
- `staging` and `zensical_build` build the same pages with Zensical.

Modules marked "Pure" read and write no files: data in, Markdown out. Everything in a note is untrusted text. Layout is
in `templates/pages/`, words in `templates/words/`, scripts in `templates/site/`.
"""
