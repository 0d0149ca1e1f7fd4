"""Gives a run a name, at the beginning of its title: in lists, on the site and in its entry."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping

from labbook.errors import EntryError, NotebookError, UsageError
from labbook.index.query import find_run
from labbook.sharing.move_run import is_going_on
from labbook.store.commit.branch_checkout import restore_before_writing
from labbook.store.commit.entry_commit import CommitOutcome, commit_files
from labbook.store.journal import write_atomically
from labbook.store.notebook import Notebook
from labbook.store.paths import check_stays_inside, checked_run_id
from labbook.store.recorder_redaction import make_redactor
from labbook.store.text import frontmatter
from labbook.store.text.entry_text import read_text, to_bytes
from labbook.store.text.escape import inline, visible

_LONGEST = 60
_HEADING = re.compile(r"^# .*$", re.MULTILINE)


def name_run(notebook: Notebook, word: str, name: str) -> tuple[str, str, CommitOutcome]:
    """Writes the name of a run into its entry and commits it; returns its id, its title, and the commit.

    Args:
        word: A run as `find_run` knows it.
        name: The name; "" for that of its script.

    Raises:
        NothingFoundError: There is no such run.
        UsageError: The name is too long.
        EntryError: The run goes on, or the name has a secret.
        NotebookError: The entry cannot be written.
    """
    name = " ".join(visible(name).split())
    if len(name) > _LONGEST:
        raise UsageError("sync.name.too_long", name=name, most=_LONGEST)
    if make_redactor(os.environ, (), notebook.redaction_rules()).text(name) != name:
        raise EntryError("sync.name.secret")
    entry = find_run(notebook, word)
    run = checked_run_id(entry.id)
    if is_going_on(notebook, entry):
        raise EntryError("sync.name.going_on", run=run)
    script, title = entry.script, str(entry.meta.get("title") or run)
    source = entry.meta.get("imported_from")
    script_or_run = script or (str(source.get("run") or "") if isinstance(source, Mapping) else "")
    first = str(entry.meta.get("name") or script_or_run)
    result = title.removeprefix(f"{first}: ").removeprefix(f"{first}：") if first else title
    head = name or script_or_run
    title = f"{head}: {result}" if head else result
    # The script was the beginning of the title.
    meta = {"title": title, "name": name or None, **({"script": script} if script else {})}
    path = notebook.paths.entry(run)
    check_stays_inside(path, notebook.paths.root)
    restore_before_writing(notebook, notebook.paths.notes)
    try:
        text = frontmatter.update(read_text(path), meta, path.name)
        body = frontmatter.parse(text, path.name)[1]
        front = text.removesuffix(body)
        write_atomically(path, to_bytes(front + _HEADING.sub(lambda _: f"# {inline(title)}", body, count=1)))
    except OSError as error:
        raise NotebookError("sync.name.not_written", path=path, reason=error) from error
    return run, title, commit_files(notebook, [path], f"Name {run}\n", when=time.time())
