"""Builds the site, keeps it between builds, and serves it.

`site_build` reads `mkdocs.yml` as data (`mkdocs_settings`) and has `incremental_build` render only pages that would
differ, with processes of `worker_processes`. `site_files` lists the files of a site and the key of what all pages
share; `site_folder` knows which files of the output folder are labbook's; `post_build` adds the search; `site_cache`
keeps all of it for the next job of a CI service. `serving` and `file_watch` show the site while notes change. `staging`
and `zensical_build` build the same pages with Zensical.

Not here: what the pages say (`publish/pages/`).
"""
