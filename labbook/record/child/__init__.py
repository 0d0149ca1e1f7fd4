"""Runs the recorded command without changing its behaviour, and stores a copy of its output.

Start with `supervisor.run_child`. It decides for each stream whether the command gets a pseudo-terminal, a pipe or the
user's own stream (`terminal`), starts it with the probe first on `PYTHONPATH` (`probe_environment`), and returns a
`ChildEnd` with exit status, signal and duration.

The output is copied twice, and the screen never waits for the journal: the process `pump` copies each byte to the
screen, and sends the same bytes over a socket (`tee`) to `keeper`, which redacts and stores them at its own pace.
`output_copier` connects the two and reports what was lost. `signal_relay` passes every signal on once.

The code here is long because terminals are complicated: job control, window size, closed streams, a full disk and a
dying recorder each need code and have tests in `tests/record/child/`. Do not simplify code without its test. The format
and the size limit of the stored output belong to `capture/console/`.
"""
