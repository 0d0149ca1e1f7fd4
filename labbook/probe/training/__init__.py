"""Follows a training loop, without knowing a framework.

An adapter (`torch/adapter.py`, `paddle/adapter.py`) reports forwards, backward calls and optimizer steps. This package
turns them into records: which backward belongs to which step, how long each phase took, which loss was stepped on, and
at which steps tensors are inspected.

Start with `loop_follower.py`: `Training` numbers the steps and assigns backward calls to them; `step_losses.py` finds
out which of several losses were stepped on, and `discarded_gradients.py` whether gradients were thrown away. Then
`monitor.py`:
`TrainingMonitor` follows the order of forwards, backwards and steps, and decides when the inspector of the framework
inspects tensors (`sampling_schedule.py`) and which of very short steps are followed at all (`step_sampling.py`).
`step_recorder.py` reduces the numbers of many steps to few events, and `overhead.py` estimates what inspecting really
costs. A steady loop of short steps takes the `fast_path.py`, where steps are queued and processed in batches.

Cost is part of every interface here: a docstring says what a call costs, and `benchmarks/step_cost.py` measures it.

`user_requests.py` and `request_hooks.py` implement `--watch`, `--break`, `--stop-on`, `--max-steps` and `--profile`.

Not here: how a tensor is read (`torch/`, `paddle/`), what is read from it (`inspection/`), and any
evaluation of the numbers (`labbook/health/`).
"""
