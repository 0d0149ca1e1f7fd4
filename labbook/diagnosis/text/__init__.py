"""Reads logs, pasted reports and notebooks: finds tracebacks, error lines and how a process ended.

Start with `log_reader.read_text` and `log_reader.read_stream`. Both return an `Evidence`: the exceptions with their
frames, the lines outside of them that report something, and the exit code or signal. `log_lines` removes prefixes
such as time stamps, ranks and quoting marks; `traceback_parser` reads the blocks of Python and Paddle;
`exit_lines` recognises what a shell, a scheduler or a launcher prints when a process dies. A log of any length is
read in one pass with bounded memory: of equal lines the first and the last few are stored.

`hedging` removes sentences that report no failure; `[edges]` of `log_reader.toml` has lines that only show one: code.

This package does not decide which kind of failure a text shows, and it imports nothing of `families/` or
`catalogue/`.
"""
