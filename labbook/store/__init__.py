"""Everything on disk: paths, settings, front matter, entries, journal, git, templates, redaction."""
