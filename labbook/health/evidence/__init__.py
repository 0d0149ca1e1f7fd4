"""What the checks read: the measured series of a run, prepared once.

`measurements` has the series and says why one is missing, `layer_history` parameters and modules over the run,
`training_kind` whether the loss has to fall at all, `training_batches` their inputs, `regression_outputs` outputs
beside their targets, `trend_tests` robust statistics of short series.

Not here: thresholds and verdicts, which are in `health/rules/` beside the source of each threshold.
"""
