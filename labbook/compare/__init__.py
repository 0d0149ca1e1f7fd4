"""Compares runs: what changed since the previous one, and a table of what differs between several.

Start with `run_changes.changes_between`, which lists the differences of two runs with the likeliest causes of another
result first, and `run_table`, which puts the facts of many runs side by side. Both read `run_settings`: options,
configuration, versions, machine and data of one run as flat names and values, from its `run.json`.

- `previous_run` finds the run of the same script before this one.
- `code_changes` lists changed files between two runs, committed or not; `code_diff` shows the changed lines.
- `comparison` prepares the tables of `labbook compare`.

Which change is likely to have fixed a failure is decided in `fixes/`. The site draws comparisons in the browser from
files that `publish/compare_data.py` writes. This room reads data that was recorded; it measures nothing.
"""
