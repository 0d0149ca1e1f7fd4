"""The command line, one file a command.

A command declares its options with Click, calls one function of the floor below and prints the answer: Rich output for
people, `--json` for programs. `options` holds what several commands share: `--notebook`, `--json`, the run argument
with completion, and opening the notebook. The table of commands is in `labbook/cli.py`; it loads a command only when
it is called, so `labbook record` starts fast.

To add a command, write one file here and add its row to `cli.py`. A command formats nothing itself beyond its own
table, decides nothing, and catches no errors: every `LabbookError` carries its message, hint and exit code, and
`cli.py` prints it.
"""
