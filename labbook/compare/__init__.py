"""Compares runs: changes since the previous run, differences between several runs.

Start with `run_changes.compare_runs`, which lists the differences of two runs with the likeliest causes of another
result first, and `run_table`, which puts the facts of many runs side by side. Both use `run_settings`: options,
configuration, versions, machine and data of one run as flat names and values, from its `run.json`.

- `previous_run` finds the run of the same script before this one.
- `code_changes` lists changed files between two runs, committed or not; `code_diff` shows the changed lines.
- `comparison` prepares the tables of `labbook compare`.

`fixes/` decides which change is likely to have fixed a failure. The site draws comparisons in the browser from files
that `publish/pages/compare_data.py` writes. This room reads recorded data and measures nothing.
"""
