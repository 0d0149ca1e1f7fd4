"""The search of the site, by Pagefind.

`search_source` reads the notes and has `search_records` make the records: fixes, symptoms, runs, experiments, reports.
`search_words` splits texts and queries into words, Chinese too, and `search_shards` builds the index in shards, of
which only changed ones are built again; `search_service` runs Pagefind's program. `search_page` has the words of the
search interface.

Not here: `labbook search`, which answers from the index of the notebook (`index/` and `findings/`).
"""
