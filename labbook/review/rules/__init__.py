"""The rules of `labbook review`: a folder per subject, a module per kind of fault.

A rule is a function with the decorator `error`, `warning` or `note`. It yields hits: the node of the syntax tree and
the values of its sentence. Precision comes before recall: a rule that cannot resolve a name yields nothing.

- `data/`: splits, order, scale, labels of the samples.
- `model/`: layers, forward, outputs.
- `loss/`: arguments, formulas, signs, gradients, numeric range.
- `loop/`: the calls of a training loop and their order, schedules, modes, shared objects.
- `evaluation/`: metrics and their totals.
- `reinforcement/`: policies, Q values, ends of episodes.

Code for several rules (data flow, names, classes) belongs to `review/`.
"""
