"""The memory of fixes: proposes what cured a failure, stores what a person confirmed, and finds it again.

Start with `propose_fix`: when a run ends well, it looks for an earlier failure that is gone and lists the differences
that may have cured it. `confirm_fix` writes a confirmed or rejected fix into both entries and the page of the symptom,
in one commit. `fix_history` answers from the index: earlier runs with the same failure, their fixes, and in how many
later runs each fix held.

`fix_candidates` ranks the differences of two runs by how likely each one is the cure.

Nothing is asserted without a person: a proposal stays a proposal until `labbook fix` confirms it. What two runs differ
in comes from `compare/`; the Markdown of a fix is written by `report/entry/fix_section.py`; the index tables behind
the answers belong to `index/`.
"""
