"""Inspects models and tensors, without knowing a framework.

PyTorch and PaddlePaddle differ in how a tensor is read, how a graph is walked and how a call is observed. They do not
differ in what is looked for. What they share is in this room: base classes with a few hooks that each framework
implements, and algorithms on plain data. A module here has the same name as its counterparts in `torch/` and `paddle/`.

Start with `inspector.py`: `TensorInspector` is what `training.monitor.TrainingMonitor` calls around forwards, backward
calls and steps. Then `flight_recorder.py`: it stores references to the last forward, so that `replay.py` can run it
again once a loss is not finite, with everything put back by `state_snapshot.py`.

To add a statistic of all tensors, add it to the base class here and its reading to both `tensor_stats.py`. What only
one framework has stays in that framework's folder.

Not here: imports of `torch` or `paddle`, whether the framework or the probe's folder of that name, and any judgement
about what was found (`labbook/health/`).
"""
