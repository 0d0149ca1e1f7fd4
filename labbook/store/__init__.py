"""All access to files and git: paths, settings, front matter, entries, the journal, templates, redaction.

Start with `notebook_finder.find_notebook`, which finds or creates a notebook, and `paths.NotebookPaths`, which
defines all file names. `journal` is the append-only folder of a run; `event_reader` gives its events their
types. `entry_commit.commit_files` commits entries with one `git fast-import`, without touching HEAD, index or working
tree.

- Text: `frontmatter`, `entry_text` (generated blocks and hand-written text), `escape`, `templates`.
- Git: `git_process` runs git, `git_identity` says who signs, `repository` and `git_state` read, `fast_import`,
  `git_index_sync`, `commit_queue`, `branch_checkout`, `changed_notes`, `git_history` serve commits.
- Notebook: `config` (one field per setting), `experiments`, `scaffold`, `private_folder`, `locks`, `process_identity`,
  `remotes`.

Each third-party library is imported by one module: PyYAML in `frontmatter`, Jinja2 in `templates`, GitPython in
`repository`. Other packages open files of a notebook only through this one. It imports `model/`, but no package above.
"""
