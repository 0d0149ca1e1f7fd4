"""Sharing a notebook through any git remote: one person's entries and words meet those of others, and nothing is lost.

Start with `synchronize.synchronize`, which is `labbook sync`: it commits edited notes, fetches the branch of the
notebook, merges, pushes, and brings the files in `notes/` along. A clone that only adds to what the remote had when
they last met pushes at once and fetches nothing. `local_merge` is the part without a network. `remote_git` is the only
module that lets git use one; all other modules call git through `labbook.store.git.git_process`, which forbids it.

The merge works on trees, not on a work tree, and never fails on content. `tree_merge` compares the three trees;
`file_merge` picks a rule for each file; `note_merge` merges one Markdown note by front matter, generated blocks and
lines; `line_merge` is the three-way merge of lines. These rules are symmetric: the same tree results whichever side
merges. `disk_update` changes files on disk, and merges instead of overwriting what was edited there.

`follow_remote` brings fetched entries to a clone without a network; `move_run` moves a run between two notebooks.
What an entry contains, and how one is committed, does not belong here: see `labbook.report` and `labbook.store`.
"""
