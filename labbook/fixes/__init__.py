"""The memory of fixes: proposes fixes, stores those that a person confirms, finds them again.

Start with `propose_fix`: when a run ends well, it looks for an earlier failure that is gone and lists the differences
that may have fixed it. `confirm_fix` writes a confirmed or rejected fix into both entries and the page of the symptom,
in one commit. `fix_history` reads the index: earlier runs with the same failure, their fixes, and in how many later
runs each fix still worked.

`fix_candidates` finds the differences of two runs that may be the fix, `fix_ranking` sorts them: by `difference_names`
what the failure names, by `backward_slice` what reaches the failing line, by `fix_background` what came since the last
healthy run and what an earlier attempt had. `fix_judge` marks the earlier fixes that are fixes for a failure of now, by
the rules in `fix_applicability`.

A proposal stays a proposal until a person confirms it with `labbook fix`. The differences of two runs come from
`compare/`, the Markdown of a fix from `report/entry/fix_section.py`, the tables of the index from `index/`.
"""
