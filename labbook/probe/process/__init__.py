"""Observes one Python process: its exceptions, files, options, child processes and stalls.

Start with `interpreter_hooks.py`, which installs every hook on the interpreter and on libraries other than the training
frameworks, and with `exceptions.py`, which turns an uncaught exception into plain data. `failing_line.py` adds the
tensors that the failing line names, `known_names.py` the names that exist where one is missing; `user_files.py` decides
which source files belong to the user.

Each of the other modules records one kind of fact: which files were read and written (`file_access.py`,
`native_readers.py`, `config_files.py`), which options were used (`parsed_options.py`, `settings_values.py`), which
source files and variables (`used_sources.py`), which numbers the program logged itself (`metric_loggers.py`), which
children were killed (`child_processes.py`), where the threads are while nothing moves (`stall_watchdog.py`,
`thread_stacks.py`), and which objects of a class exist (`gc_scan.py`).

All of it is passive: a hook calls the original first or last, passes its result and its errors on, and contains its own
failures in a `Guard`.

Not here: anything that needs to know what a step, a model or a tensor is.
"""
