"""The Markdown entry of a run, one module a section.

Start with `entry_page`: it joins the sections in the order in which a reader asks (result, cause, fix, changes, then
the evidence) and preserves all text that people wrote between or after the generated blocks.

- `entry_front_matter`: the YAML block; `title`: the one sentence that names the run.
- `summary_section`, `diagnosis_section`, `fix_section`: result, diagnosis, fix.
- `debug_section`, `requests_section`: modules and batches; results of `--watch`, `--profile`, `labbook.checks`.
- `configuration_section`, `environment_section`, `console_section`: settings, code, machine, output.
- `merged_rows` joins rows of the checklist that share a reason; `section_limits` bounds the length of each section.

A section is a function that returns plain data for its template in `templates/entry/`, or `None` if it has nothing to
show; then its heading is left out.
"""
