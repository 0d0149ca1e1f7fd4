"""Judgements over what was measured.

A module holds related checks in its tuple `CHECKS`. A check is a small function `(run, signals) -> Outcome | None`,
made a `Check` by the decorator above it, which says what it needs, how certain it is and what helps; its docstring
names the `Source` of its thresholds. `None` says that the question does not arise in this run (no gradient scaler is
used, say). A check whose signal is missing answers *not observed* with the reason: silence is never read as health.
Where the catalogue has a symptom for what a check finds, both have the same id.

`checklist.py` asks all of them, `causes.py` says which finding explains which, `regime.py` whether a loss has to fall
at all, `layers.py` and `evidence.py` are how checks look at signals, `statistics.py` the tests.
"""
