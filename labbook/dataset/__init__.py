"""The notebook as a data set: Parquet tables by month of the run, for DuckDB, pandas, Polars, Spark and others.

Start with `dataset_export.export`, which brings a folder or an object store up to date with the notebook, and with
`notebook_query.run_query`, which answers `labbook query` from such a data set in the notebook's private folder.

- `dataset_tables` defines the tables and their columns; the documentation is generated from it.
- `entry_rows` turns an entry and its `run.json` into rows.
- `parquet_files` writes the rows of a month, equal bytes for equal rows, and keeps the rows of unchanged runs.
- `dataset_store` reads and replaces files in a folder or any store of fsspec, and holds the manifest: which content of
  which run is in the data set.

A data set is a copy: the Markdown entries are the truth, and it can be deleted at any time. Searching and filtering on
the command line belong to `index/`, the data files of the site to `publish/`.
"""
