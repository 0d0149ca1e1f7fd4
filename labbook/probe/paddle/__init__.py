"""Attaches the probe to PaddlePaddle.

Start with `adapter.py`: `attach` is called after the import of `paddle`, and `SIGNALS` lists what is hooked.
PaddlePaddle has no hooks for the whole process, so functions are replaced once and put back where a compiler looks:
`patches.py` is the only place that does so. Forwards are observed through `Layer.__call__` (`root_modules.py`), steps
through `Optimizer._apply_optimize`; no layer of the program is changed. `monitor_hooks.py` installs what the training
monitor needs beside that, and `inspector.py` looks at tensors for it.

Modules with a counterpart of the same name in `torch/` implement the same interface, and their shared part is in
`inspection/` and `training/`. Only PaddlePaddle has `patches.py`, `detach_finder.py` and `elementwise_losses.py`
(its graph has no names for operations), and `backward_origin.py` (its graph cannot be hooked at the nodes).

Not here: anything that PyTorch needs, too. Recording a PaddlePaddle program loads nothing of `torch/`. This package is
named like the framework and does not shadow it: `import paddle` inside it is absolute.
"""
