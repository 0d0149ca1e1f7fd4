"""Health checks: what the probe measured during a training, judged after it has ended.

A check is a function `(run, signals) -> Outcome | None`, made a `Check` by the decorator `check(id, ...)`, which says
its family, its tier and the signals that it needs. Its docstring says what it tests and names the `Source` of each
threshold. It returns a verdict with messages (key and values, `labbook.model.message`), `None` where the question does
not arise in this run (no gradient scaler is used, say), and *not observed* with the reason where a signal is missing:
silence is never read as health. Tier 1 is a logical invariant, tier 2 a statistical test with a stated null, tier 3 a
hint that is never more than a note.

What a user reads is data. The symptom page of the same id (`labbook/symptoms/<id>.md`) has the name of the row
(`check`), the expectation (`expected`), the advice (the first entry under *What to try*) and the consequences
(`causes_of`); the sentences with numbers stand in `templates/words/messages/<language>_health*.toml`, the same keys in
each language.

Start with `checklist.checklist`, which runs every check once, corrects the tests for their number (Holm) and puts
effects under their causes. Checks stand in modules by subject, each with its tuple `CHECKS`: `coverage` (steps, loss,
seeds, overhead), `initial`, `schedule`, `wiring`, `gradient`, `updates`, `activation`, `numeric`, `precision`,
`input_data`, `labels`, `batch_order`, `loop`, `learning_targets`, `convergence`, `validation`, `memory_use`,
`performance`, `distributed` and `requested_settings`. They read fields of events by the types of `model/events/`,
without further checks, and share `measurements` (series, and why one is missing), `layer_history` (parameters and
modules over the run), `training_kind` (whether the loss has to fall at all), `first_nonfinite` (what the flight
recorder found), `regression_outputs` and `trend_tests` (statistics).

To add a check: the function in the module of its subject, its line in `CHECKS`, its symptom page, and its sentences in
both languages. What measures belongs to the probe, what draws or prints to `report/`, what reads pages to `diagnosis/`:
pages come in as `CheckPages`.
"""
