"""Stores what a command prints: bounded, redacted, with progress bars folded to their last state.

Start with `console_sink.ConsoleSink`, which receives raw bytes, and `console_reader.read_console`, which returns what
the entry shows: the first lines, the notable lines of the middle (errors, warnings, thinned metrics), the last lines.

- `terminal_folding` removes what a terminal would have overwritten, and escape sequences.
- `notable_lines` selects lines from the middle of a long output.
- `console_store` keeps numbered lines on disk: the first for good, the last in segments of which the oldest is dropped.

Secrets are masked before a byte reaches the disk. Copying output to the screen is the work of `record/child/`; finding
the error in the text is the work of `diagnosis/text/`.
"""
