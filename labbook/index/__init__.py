"""The search index: SQLite FTS5 over everything in `notes/`, made again from the files whenever it is missing."""
