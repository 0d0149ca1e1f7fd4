"""The vocabulary of labbook: frozen dataclasses without input or output.

Start with `run.Run`, the record of one execution of a command. It is built from the journal; entry, index,
reports and site are built from it alone. `run_json` writes it as plain data and reads it back, also from older
versions.

- `series.Series`: a quantity over steps; `downsampling` shortens it without losing an extreme.
- `events`: the schema of what the probe writes, a type for each kind of event.
- `signals.Signals`: what the probe measured in one training process beyond its series.
- `check.Check` and `check.Outcome`: a health check and its result.
- `evidence.Evidence` and `finding.Finding`: input and output of a diagnosis.
- `symptom.Symptom`: a page of the catalogue; `entry.Entry`: front matter and text; `confirmed_fix.Fix`: a fix.

A class belongs here when two packages pass it to each other. Code that reads, writes, computes or formats belongs to
the package that needs it.
"""
