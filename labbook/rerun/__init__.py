"""Runs a recorded run again, and judges whether the result is the same.

Start with `rerun_run.rerun`: it checks out the recorded commit in a worktree of its own, applies the recorded patch
(`recorded_code`), links data that git does not hold and compares its fingerprints (`recorded_inputs`), compares the
environment (`recorded_environment`) or builds it again (`rebuilt_environment`, `recorded_container`), moves the paths
of the command into the worktree (`recorded_command`), and records it with `labbook.record`. The user's checkout is
never touched.

`reproduction` compares the two runs: bitwise identical, within the noise of repeats, or different from a step on, with
the likeliest reason. `bisection` searches the differences of two runs for the one that changed the result.

A parameter `run`, `good` or `bad` is the data of a `run.json`; `code` is the code of a run in a folder of its own.
Differences between runs come from `compare/`, the recording from `record/`. Nothing here measures a program.
"""
