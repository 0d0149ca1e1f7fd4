"""Builds one `Run` from a journal: events of the probe, end of the command, console.

Start with `journal_reader`: it takes the events of each process, typed by `model/events/`, and builds the
`model.run.Run` from which the entry, the index and the site are made.

- `series_events`: loss, learning rate, gradient norm and logged numbers become `Series`.
- `signal_events`: facts about modules, batches, loss functions and the loop become `Signals`, the input of `health/`.
- `ending_events`: exit status, exception, last progress and thread stacks become the ending of the run.
- `request_events`: results of `--watch`, `--profile` and `labbook.checks`.
- `ranks` names the rank of each process; `blocked_on` names the call in which a thread waits.
- `roll_call` compares the ranks of a run: `rank_rows` has one row of each, `odd_rank` names the one unlike the others.

A process may die in the middle of a line and a probe may be of another version: any field may be missing, and those
that are there have been checked by `store/event_reader.py`. Nothing here judges: a value that looks wrong is passed on
as it was measured.
"""
