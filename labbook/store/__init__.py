"""Everything on disk: paths, settings, front matter, entries, the journal, git, templates, redaction.

Start with `notebook_finder.find_notebook`, which finds or makes a notebook, and `paths.NotebookPaths`, the only
place that joins names of files. `journal` is the append-only folder of a run;
`event_reader` gives its events their types. `commit.commit_files` commits entries
with one `git fast-import`, without touching HEAD, index or working tree.

- Text: `frontmatter`, `entry_text` (generated blocks and people's words), `escape`, `templates`, `redact`.
- Git: `git_process` calls it, `repository` and `git_state` read, `fast_import`, `git_index_sync`, `commit_queue`,
  `branch_checkout`, `changed_notes`, `git_history` serve commits.
- Notebook: `config` (one field a setting), `experiments`, `scaffold`, `private_folder`, `locks`, `process_identity`,
  `remotes`.

Each outside library has one door here: PyYAML in `frontmatter`, Jinja2 in `templates`, GitPython in `repository`. Code
above this room never opens a file of the notebook by itself. This room knows `model/` and nothing above it.
"""
