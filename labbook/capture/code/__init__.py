"""Reads the state of the user's code: commit, branch, remote, and every uncommitted change as one patch.

Start with `working_tree.capture`. In a repository it asks git through `git_reader`, with few calls, bounded answers and
none of the repository's own configuration, and builds `changes.patch` with `patch`; `untracked_files` decides which
new files belong into it. Where there is no repository, `code_without_git` copies the script and the files beside it
that it imports.

The patch is redacted before it is written and bounded by `patch_max_bytes`. Comparing the code of two runs belongs to
`compare/`; committing entries belongs to `store/commit.py`.
"""
