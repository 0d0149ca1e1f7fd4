"""The event file of a process: what may be written, and how a line is written.

A process of a recorded run appends to one file, `events/<host>-<pid>-<start ticks>.jsonl`. Each line is one JSON object
with a kind and the fields of that kind. Lines are written with one system call each, so that a killed process leaves
whole lines behind and threads do not mix theirs.

Start with `protocol.py` and `measurement_kinds.py`: they name every kind of event and document every field with its
unit. `protocol` is imported outside the probe, too, by the code that reads event files; names never change, because old
journals must stay readable.
`event_writer.py` holds `EventWriter`, which opens the file and appends to it. `jsonl.py` encodes plain data as one line
without importing `json`, whose import costs more than all lines of a short program.

Not here: what an event means for the report (that is `labbook/record/` and `labbook/health/`), and what decides whether
an event is written (the rooms above).
"""
