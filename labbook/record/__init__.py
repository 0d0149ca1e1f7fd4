"""Records one command: starts it unchanged, stores its output and metrics, commits its entry.

Start with `session.record`. It reads from top to bottom: find the notebook, create a run id and a journal, start the
command, wait for its end, write the entry. `finalize.finalize` builds the entry from the journal alone, so that
`recover.recover` can repeat it for a run whose recorder was killed.

- `child/` runs the command: its terminal, its output, its signals, its environment.
- `run_from_journal/` builds one `model.run.Run` from the files of the journal.
- `program_requests` and `watch_expressions` read the options that the probe carries out inside the program
  (`--watch`, `--break`, `--stop-on`, `--max-steps`, `--profile`).
- `profiler_traces` moves the traces of `--profile` into the folder of the entry.

Two rules apply to every line here. The command's result, output and exit status are the same as without labbook. And
all facts of the entry are in the append-only journal first: none exists in memory alone.

`capture/` reads the machine and the code, `health/` judges a training, `diagnosis/` explains errors, `report/` writes
pages. Comparing runs belongs to `compare/`, fixes to `fixes/`.
"""
