"""All access to files and git: paths, settings, front matter, entries, the journal, templates, redaction.

Start with `notebook_finder.find_notebook`, which finds or creates a notebook, and `paths.NotebookPaths`, which
defines all file names. `journal` is the append-only folder of a run; `event_reader` gives its events their types.
`config` has one field per setting, `experiments` the named pages that group runs, `scaffold` the files that make a
folder a notebook.

- `text/`: front matter, blocks of an entry, templates, sentences, escaping.
- `git/`: running git, and reading repositories.
- `commit/`: entries into the branch of the notebook, and back into a work tree.

Each third-party library is imported by one module: PyYAML in `text.frontmatter`, Jinja2 in `text.templates`, GitPython
in `git.repository`, fsspec in `remote_files`. Other packages open files of a notebook only through this one. It imports
`model/`, but no package above.
"""
