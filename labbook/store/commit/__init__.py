"""Commits of the notebook: entries into its branch, and the way back.

Start with `entry_commit.commit_files`: one `git fast-import`, without touching HEAD, index or work tree, also during a
merge of the user; `branch_tip` writes to the branch while other programs use it. `last_look` scans for secrets in
exactly the bytes that are committed, `masked_commit` masks or withholds what it refuses; `commit_queue` holds what
could not be committed. `branch_checkout` keeps the files of the branch next to the code, `changed_notes` finds notes
that somebody edited, `git_history` the last commit of a note, `sync_state` what this clone remembers about sharing.

Not here: merging with other people's notebooks (`labbook/sharing/`).
"""
