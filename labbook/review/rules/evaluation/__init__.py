"""Rules about evaluation: what a metric is computed from and what it is divided by.

- `metric_values`: the scale of the scores, the threshold, the labels, and the part of the data that a metric is of.
- `running_totals`: totals over batches that are overwritten or divided by another length; lists of predictions.
- `totals_over_epochs`: totals and lists that are made before the epochs and grow in each of them.
- `metric_objects`: objects of torchmetrics and paddle that are never reset, shared, or averaged over batches.
- `executor_runs`: runs of static programs on held-out data.

Metrics that a run prints or logs are judged by `health/`; which one is the headline is decided in `findings/`.
Rules about the mode of a model in an evaluation belong to `loop/modes_and_devices`.
"""
