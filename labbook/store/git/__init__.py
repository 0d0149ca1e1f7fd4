"""Git, as labbook uses it for any repository.

`git_process` runs git with a clean environment and a time limit; whoever needs git goes through it. `repository` reads
history and differences (the only module that imports GitPython), `git_state` reads a rebase or merge in progress from
files, without calling git. `git_identity` says who signs, `fast_import` writes the input of `git fast-import`,
`git_index_sync` keeps `git status` clean after it, `remotes` removes credentials from addresses.

Not here: what a notebook commits, and where (`store/commit/`).
"""
