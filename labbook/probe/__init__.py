"""The code that runs inside every Python process of a recorded command.

`labbook record` puts `inject/` first on `PYTHONPATH`. The interpreter then imports `inject/sitecustomize.py`, which
loads this folder under the private package name `_labbook_probe` and calls `start.boot`. From there on a `Probe` object
observes the process and appends what it observes to one event file in the run's journal; the recorder reads that file
after the command has ended.

The package is isolated: it imports the standard library and itself, runs on Python 3.8, and imports nothing of labbook.
It never raises, never prints, never draws a random number and never changes a result. Each failure of its own is
counted and written as a `probe_error` event.

Subpackages, from the lowest layer up; a module imports only from lower layers or from its own:

- `imports`, `wrapping`, `guard` (files of this folder): callbacks after an import, invisible wrappers around functions,
  and the context manager that contains failures of the probe.
- `events/`: the event file and its vocabulary. `events/protocol.py` documents every event and field.
- `redaction/`: secrets and personal paths are masked before anything is written.
- `process/`: the interpreter itself: exceptions, warnings, files, options, child processes, stalls.
- `training/`: the training loop, without a framework: steps, losses, phases, overhead, sampling, user requests.
- `inspection/`: models and tensors, without a framework: base classes and search algorithms that both frameworks use.
- `torch/` and `paddle/`: one adapter for each framework. They do not import each other, and a program that uses one
  loads nothing of the other.
- `start.py`: starts the probe and the other subpackages. It is the best place to begin reading; `torch/adapter.py`
  is the second.

Two parts are also imported outside the probe: `events.protocol` by the code that reads event files, and `redaction` by
everything in labbook that masks text. `tests/test_house.py` checks these rules.

No package of the probe imports anything in its `__init__`: each import delays every recorded Python process.
"""
