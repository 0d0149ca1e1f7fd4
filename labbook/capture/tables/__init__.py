"""Reads tables of trainings in CSV, TSV and JSONL: what a recorded program wrote, and what `labbook import` is given.

Start with `written_tables.py`, which finds the tables among the files that a run wrote and returns their series. Below
it, `csv_tables.py` opens a file (encoding, separator, header), `csv_columns.py` says by their names what its columns
are (steps, data splits, metrics), and `csv_rows.py` adds its rows to a `SeriesCollector`, apart for each run. Tables on
the console are read in `capture/metric_tables.py`; imported runs become entries in `imports/`.
"""
