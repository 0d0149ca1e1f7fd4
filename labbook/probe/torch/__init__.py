"""Attaches the probe to PyTorch.

Start with `adapter.py`: `attach` is called after the import of `torch`, and `SIGNALS` lists what is hooked. Steps are
observed through the global hooks of optimizers, backward calls through `torch.autograd.backward`, forwards through
`Module.__call__` (`module_calls.py`); no module, optimizer or tensor of the program is changed, so that a trained model
can be saved, scripted, traced, exported and compiled as without labbook. `monitor_hooks.py` installs what the training
monitor needs beside that, and `inspector.py` looks at tensors for it.

Inside a compiled region, while TorchScript traces, and while a CUDA graph is captured, every hook returns at once.
Nothing here waits for a device on an ordinary step: values that are still on a device are read later (`scalars.py`).

Modules with a counterpart of the same name in `paddle/` implement the same interface, and their shared part is in
`inspection/` and `training/`. Only PyTorch has `collectives.py`, `compiler.py`, `loss_terms.py`, `module_registry.py`,
`nonfinite_origin.py` and `spectral_norms.py`.

Not here: anything that PaddlePaddle needs, too. This package is named like the framework and does not shadow it:
`import torch` inside it is absolute.
"""
