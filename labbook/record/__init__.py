"""Records one command: starts it unchanged, stores what it prints and measures, and commits its entry.

Start with `session.record`. It reads from top to bottom: find the notebook, make a run id and a journal, start the
command, wait for its end, make the entry. `finalize.finalize` makes the entry from the journal alone, so
`recover.recover` can repeat it for a run whose recorder was killed.

- `child/` runs the command: its terminal, its output, its signals, its environment.
- `run_from_journal/` folds the files of the journal into one `model.run.Run`.
- `program_requests` and `watch_expressions` read the options that the probe carries out inside the program
  (`--watch`, `--break`, `--stop-on`, `--max-steps`, `--profile`).
- `profiler_traces` moves the traces of `--profile` into the folder of the entry.

Two rules hold for every line here. The command's result, output and exit status are the same as without labbook. And
whatever is needed for the entry is in the journal before it is needed: the journal is append-only, and nothing is
kept in memory alone.

What the machine or the code looks like is read in `capture/`, health is judged in `health/`, errors are explained in
`diagnosis/`, pages are written by `report/`. Comparing runs belongs to `compare/`, fixes to `fixes/`.
"""
