"""Health checks: what the probe measured during a training, judged after it has ended.

A check is a function `(run, signals) -> Outcome | None`, made a `Check` by the decorator `check(id, ...)`, which says
its family, its tier and the signals that it needs. Its docstring says what it tests and names the `Source` of each
threshold. It returns a verdict with messages (key and values, `labbook.model.message`), `None` where the question does
not arise in this run (no gradient scaler is used, say), and *not observed* with the reason where a signal is missing:
silence is never read as health. Tier 1 is a logical invariant, tier 2 a statistical test with a stated null, tier 3 a
hint that is never more than a note.

What a user reads is data. The symptom page of the same id (`labbook/symptoms/<id>.md`) has the name of the row
(`check`), the expectation (`expected`), the advice (the first entry under *What to try*) and the consequences
(`causes_of`); the sentences with numbers are in `templates/words/messages/<language>_health*.toml`, the same keys in
each language.

Start with `checklist.checklist`, which runs every check once, corrects the tests for their number (Holm) and puts
effects under their causes (`causes`). The checks are in `rules/`, by subject; what they share is in `evidence/`:
series, layers over the run, kind of training, statistics. They read fields of events by the types of `model/events/`,
without further checks. `model_summary`, `model_tree` and `debug_output` prepare what an entry shows of the model.

To add a check: the function in the module of its subject in `rules/`, its symptom page, and its sentences in both
languages. What measures belongs to the probe, what draws or prints to `report/`, what reads pages to
`diagnosis/`: pages come in as `CheckPages`.
"""
