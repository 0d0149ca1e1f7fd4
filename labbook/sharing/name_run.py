"""Gives a run a name, at the beginning of its title: in lists, on the site and in its entry."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping

from labbook.errors import EntryError, UsageError
from labbook.index.query import find_run
from labbook.sharing.move_run import is_going_on
from labbook.store.commit.branch_checkout import restore_before_writing
from labbook.store.commit.entry_commit import CommitOutcome, commit_files
from labbook.store.notebook import Notebook
from labbook.store.paths import checked_run_id
from labbook.store.recorder_redaction import make_redactor
from labbook.store.text import frontmatter
from labbook.store.text.entry_text import change_entry
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

    def set_name(page: str) -> str:
        page = frontmatter.update(page, meta, f"{run}.md")
        body = frontmatter.parse(page, f"{run}.md")[1]
        return page.removesuffix(body) + _HEADING.sub(lambda _: f"# {inline(title)}", body, count=1)

    restore_before_writing(notebook, notebook.paths.notes)
    path = change_entry(notebook.paths, run, set_name)
    return run, title, commit_files(notebook, [path], f"Name {run}\n", when=time.time())
