"""Imports runs of other tools: TensorBoard, VisualDL, MLflow, W&B, SwanLab, Trackio and CSV logs become entries.

Start with `batch_import.import_runs`: it reads runs, converts each to a `Run`, and writes and commits the entries in
batches with the code that writes entries of recorded runs. `formats.FORMATS` is the table of readers. A reader yields
an `ImportedRun` (`imported_run.py`) for each run below a path; it knows one format and nothing of entries. What a run
logged is collected up to the limits of an entry by `logged_content.py`; `imported_files.py` reads no file outside of
the imported folder. `neutral_run.py` turns an `ImportedRun` into a `Run`.

Files are read by their documented formats, without the library of the tool: `wire_format.py` has what several formats
share, the fields of protocol buffers and the two framings of record files. A file that ends in the middle of a record
gives everything before it. A path of another format raises an error that names the format that it looks like.

`series_export.py` writes a recorded run as TensorBoard event files or as CSV. What does not belong here: sentences of
entries (`templates/`), health checks (`health/`), the command line (`commands/`).
"""
