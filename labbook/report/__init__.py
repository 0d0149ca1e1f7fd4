"""Turns a `Run` into what people read: the entry, curves, terminal lines, rows of lists, reports.

Start with `entry/entry_page.py`, which writes the whole Markdown page of a run. `curves` draws its series as one SVG
(`axes`, `panels`, `svg`), `gradient_flow_svg` the gradient over depth. `terminal_page` and `terminal_findings` print on
a terminal; `run_row` makes the one row that lists, reports and the site share; `period_context` and
`report_page` make the report of a week or another `period`; `run_data` and `diagnosis_json` are the same facts for
programs.

Labels and sentences come from `templates/words/<language>*.toml`, layouts from `templates/`. This room formats and
never decides: verdicts come from `health/`, findings from `diagnosis/`, differences from `compare/`. It reads and
writes no files but those of templates; writing the entry is the work of `record/finalize.py`.
"""
