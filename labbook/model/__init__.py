"""The vocabulary of labbook: frozen dataclasses without input or output.

Start with `run.Run`, everything that is known of one execution of a command: the journal is folded into a `Run`, and
entry, index, reports and site are made from it and from nothing else. `run_json` writes it as plain data and reads it
back, also from older versions.

- `series.Series`: a quantity over steps; `downsampling` shortens it without losing an extreme.
- `events`: the schema of what the probe writes, a type for each kind of event.
- `signals.Signals`: what the probe measured in one training process beyond its series.
- `check.Check` and `check.Outcome`: a question of the health checklist and its answer.
- `evidence.Evidence` and `finding.Finding`: what a diagnosis rests on, and what it says.
- `symptom.Symptom`: a page of the catalogue; `fix.Fix`: a confirmed cure; `entry.Entry`: front matter and text.

A class belongs here when two rooms pass it to each other. Whatever reads, writes, computes or formats belongs to the
room that does it.
"""
