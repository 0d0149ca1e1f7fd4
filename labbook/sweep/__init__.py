"""Sweeps: many runs of one script with different options, recorded one by one and shown on one page.

Start with `trial_grid.parse_axes`, which reads `lr=0.001,0.01 seed=0..4` and refuses what cannot be meant, and with
`sweep_runner.run_trials`, which records the trials that are not finished yet.

- `option_style` finds how the script takes its options: `--lr 0.1` or `lr=0.1`.
- `slurm_array` writes the array script for `sbatch`.
- `sweep_page` writes `notes/sweeps/<name>.md`: the best trials, which options matter, a picture of all trials
  (`parallel_coordinates_svg`).

A trial is an ordinary run whose front matter has `sweep: <name>`; the setting `sweep` (`LABBOOK_SWEEP`) gives it, so
that loops in a shell and other launchers can make sweeps as well. There is no scheduler here: local trials are
processes, others are the business of Slurm.
"""
