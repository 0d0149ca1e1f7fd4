-- The index of a notebook. It can be deleted at any time: it is made again from notes/.
-- `user_version` is set by index/build.py; another version means another schema and a new index.

CREATE TABLE files (
  path       TEXT PRIMARY KEY,    -- relative to the notebook, forward slashes
  mtime_ns   INTEGER NOT NULL,
  size       INTEGER NOT NULL,
  hash       TEXT NOT NULL,       -- of the content: a file that was only touched is not read again
  read_ns    INTEGER NOT NULL,    -- when it was read: a file changed within the same clock tick is read again
  problem    TEXT NOT NULL        -- why its front matter could not be read, with the line; '' when it could
) WITHOUT ROWID;

CREATE INDEX files_with_problem ON files (path, problem) WHERE problem != '';

CREATE TABLE notes (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used twice: `words` keeps the words of removed notes
  path       TEXT NOT NULL UNIQUE,
  kind       TEXT NOT NULL,       -- run, experiment, symptom, report, note
  name       TEXT NOT NULL,       -- run id, or the file's name
  title      TEXT NOT NULL,
  started    REAL NOT NULL,       -- Unix seconds
  meta       TEXT NOT NULL        -- front matter as JSON
);
CREATE INDEX notes_by_time ON notes (kind, started DESC);
CREATE INDEX notes_by_name ON notes (name);

CREATE TABLE facets (
  key        TEXT NOT NULL,
  value      TEXT NOT NULL,       -- lower case
  note       INTEGER NOT NULL REFERENCES notes (id) ON DELETE CASCADE,
  PRIMARY KEY (key, value, note)
) WITHOUT ROWID;
CREATE INDEX facets_by_note ON facets (note);

-- Names by which runs can be filtered; a name stays when its last run is removed.
CREATE TABLE names (
  kind       TEXT NOT NULL,       -- field, param, metric
  name       TEXT NOT NULL,
  PRIMARY KEY (kind, name)
) WITHOUT ROWID;

-- What failed, or was found by a check: by identity, by symptom, by family; those with a confirmed fix apart.
CREATE TABLE failures (
  key        TEXT NOT NULL,       -- fingerprint, symptom, family
  value      TEXT NOT NULL,
  fixed      INTEGER NOT NULL,    -- 1 when the entry names a fix
  started    REAL NOT NULL,
  note       INTEGER NOT NULL REFERENCES notes (id) ON DELETE CASCADE,
  place      TEXT NOT NULL,       -- script, else experiment
  PRIMARY KEY (key, value, fixed, started, note)
) WITHOUT ROWID;
CREATE INDEX failures_by_place ON failures (place, key, value, started);
CREATE INDEX failures_by_note ON failures (note);

-- Runs that came to their end, to count those in which a failure did not come back.
CREATE TABLE outcomes (
  place      TEXT NOT NULL,
  started    REAL NOT NULL,
  note       INTEGER NOT NULL REFERENCES notes (id) ON DELETE CASCADE,
  PRIMARY KEY (place, started, note)
) WITHOUT ROWID;
CREATE INDEX outcomes_by_note ON outcomes (note);

-- One row: when each of notes/ was looked at last.
CREATE TABLE looked (
  id         INTEGER PRIMARY KEY CHECK (id = 1),
  at_ns      INTEGER NOT NULL
);

-- Folders of notes/ as they were: one that did not change got no file, lost none and had none replaced.
CREATE TABLE folders (
  path       TEXT PRIMARY KEY,    -- relative to the notebook
  mtime_ns   INTEGER NOT NULL,
  read_ns    INTEGER NOT NULL
) WITHOUT ROWID;

-- Contentless: the words only, not the text, which stands in the files. Rows of removed notes stay until the index is
-- made again; queries join them away.
CREATE VIRTUAL TABLE words USING fts5 (
  title, tags, own, parts, body, content = '', tokenize = 'porter unicode61 remove_diacritics 2'
);
