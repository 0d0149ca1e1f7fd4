"""Stores the command's output: bounded, redacted, with progress bars folded.

Start with `console_sink.ConsoleSink`, which receives raw bytes, and `console_reader.read_console`, which returns the
text for the entry: the first lines, notable lines of the middle (errors, warnings, some metrics), the last lines.

- `terminal_folding` removes escape sequences and text that a terminal would have overwritten.
- `notable_lines` selects lines from the middle of a long output.
- `console_store` stores numbered lines: the first ones permanently, the last ones in a few segments.

Secrets are masked before a byte reaches the disk. Copying output to the screen belongs to `record/child/`, finding the
error in the text to `diagnosis/text/`.
"""
