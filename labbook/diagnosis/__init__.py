"""Diagnoses failures: from a log, a traceback or a recorded run to the cause, its evidence and what to try.

Start with `service.Diagnoser`, which `labbook diagnose`, `labbook search`, the recorder and the Python interface use.
It goes three steps:

1. Evidence. `text/` reads logs, pasted reports and notebooks; `run_evidence` reads a recorded run. Both return an
   `Evidence` (`labbook.model.evidence`): exceptions, lines of output, the exit status, health checks.
2. Candidates. `catalogue/` loads the pages of `labbook/symptoms/` and matches them; `candidates` sorts those that
   match, causes before consequences. `families/` names a broad family where no page describes the failure.
3. Findings. `strategies` is the ordered list of ways to explain a failure, of which the first answer decides;
   `finding_builder` writes the finding; `cause_ranking.diagnose` adds the health checks.

A wrong answer costs a reader more time than "unknown": a text without a message of a program has no finding.
`fingerprint` identifies the same failure in other runs, and `fix_ranking` sorts the differences to a later run that
may have fixed it. Printing a diagnosis belongs in `labbook/report/`, looking up earlier runs in `labbook/index/`.
"""
