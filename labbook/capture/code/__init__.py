"""Reads the state of the user's code: commit, branch, remote and uncommitted changes.

Start with `working_tree.capture`. In a repository it calls git through `git_reader`, with few calls, bounded output and
without the repository's own configuration, reads the answers with `git_output`, and builds `changes.patch` with
`patch`; `untracked_files` selects the new files in it. Without a repository, `code_without_git` finds the script and
the local files that it imports.

The patch is redacted before it is written and bounded by `patch_max_bytes`. Comparing the code of two runs belongs to
`compare/`; committing entries belongs to `store/commit/entry_commit.py`.
"""
