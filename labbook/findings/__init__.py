"""Findings of a run: the diagnosis joined with the code review and with earlier runs.

Start with `run_findings.add_diagnosis`: it diagnoses a finished run through `diagnosis.service.Diagnoser`, adds what
`review/` sees in its script (`script_remarks`) and what fixed the same failure in earlier runs
(`fixes.fix_history`). `exception_api` does the same for an exception inside a program: it is behind
`labbook.diagnose(error)` and `labbook.diagnosed()`. `search_question` finds the symptoms that a search is about, for
`labbook search` and for `query_api`, which is behind `labbook.list_runs()` and `labbook.search()`.

`code_checks.check_code` gives the rows of the checklist for faults that only the code of a training shows, and for a
program that left because its own test found a NaN (`nan_exits`). `operation_lines` finds the line of the operation that
made a loss NaN.

`configuration_check.add_configuration_check` adds what is odd in the recorded configuration to the entry, as notes that
never change a verdict: `yaml_types` (values that YAML reads as another type), `configuration_schema` (the schema that
`config_schema` names), options set twice or never read, and values far from those of earlier runs.

This room joins answers and decides nothing: evidence and ranking belong to `diagnosis/`, rules about code to `review/`,
confirmed fixes to `fixes/`, printing to `report/`. `record/` calls it at the end of a run, `labbook diagnose` and the
Python interface call it for a log or an exception.
"""
