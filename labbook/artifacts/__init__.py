"""Keeps files of runs: checkpoints, predictions, figures.

A kept file is an object, named by the SHA-256 of its bytes, so that equal files are stored once. Objects lie in
`.labbook/artifacts` of the notebook, outside git. With the setting `artifact_store` they are uploaded from there after
the run, by a process of its own, and removed locally once the store has been read back; what is still there is the
queue of uploads, so that a crash loses nothing. Which run kept which file is in its `run.json` and in its entry.

- `keep_files` is the start for reading: it decides which files of a run are kept, while it runs and at its end.
- `file_copy` copies a file that may be written at the same time.
- `object_store` is a place of objects: a folder, or a URL of fsspec.
- `upload` moves objects to the store; `inventory` lists, gets, verifies and prunes what entries name.
- `lineage` finds the earlier runs that wrote what a run read.

The content of kept files is never masked or changed. Which files a run used is recorded by `capture/used_files`, with
or without this package; how kept files look in the entry belongs to `report/`.
"""
