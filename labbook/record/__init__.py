"""Records one command: starts it unchanged, stores its output and metrics, commits its entry.

Start with `session.record`: it finds the notebook and creates a run id and a journal. `recording.Recording` runs the
command beside the threads that capture and watch it, and writes its end. `finalize.finalize` builds the entry from the
journal alone, so that `recovery.recover` can repeat it for a run whose recorder was killed.

- `child/` runs the command: its terminal, its output, its signals, its environment.
- `run_from_journal/` builds one `model.run.Run` from the files of the journal.
- `program_requests` and `watch_expressions` read the options that the probe carries out inside the program
  (`--watch`, `--break`, `--stop-on`, `--max-steps`, `--profile`).
- `profiler_traces` moves the traces of `--profile` into the folder of the entry.

Two rules apply to all code here. The command's result, output and exit status are the same as without labbook. And all
facts of the entry are written to the append-only journal first.

`capture/` reads the machine and the code, `health/` judges a training, `diagnosis/` explains errors, `report/` writes
pages. Comparing runs belongs to `compare/`, fixes to `fixes/`.
"""
