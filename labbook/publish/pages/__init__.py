"""The pages of the site as data and Markdown: home, runs, months, experiments, symptoms, fixes, comparison.

`site_data` reads the notebook through the index and gives `page.Site`, from which all pages are made:
`generated_pages` (home, run table, experiments, comparison), `month_pages`, `symptom_pages`. `page_context` adds to the
page of a note what the note does not say: neighbours in time, runs of an experiment. `run_table_data`, `compare_data`
and `feed` are the files that scripts and readers of feeds load. `build_record` records the sources of each page, so
that the next build knows which pages would differ, and `build_cache` keeps data of unchanged entries.

Not here: HTML (`publish/html/`), and everything that writes files (`publish/site/`).
"""
