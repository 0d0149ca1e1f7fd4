"""The folder that a site is written to: where it may lie, and which files in it labbook wrote.

`mkdocs.yml` comes with a notebook that may have been cloned from anywhere, so the folder that it names must lie inside
the notebook and must not be a link. A folder that a person names on the command line may lie anywhere. In either,
labbook removes only files that are on the list that it left there.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Container, Iterable
from pathlib import Path

from labbook.errors import NotebookError
from labbook.publish.build_record import files_below
from labbook.publish.post_build import KEPT_BY_OTHERS
from labbook.store.journal import write_atomically

LINK_LEFT_OUT = "notes/%s: left out: it is a link that leads out of the notebook"

LIST = ".labbook-files"
"""Name of the list, at the top of the site's folder: one path a line."""

_HALF_WRITTEN = re.compile(r"(?:.*/)?\.\d+\.tmp")
"""What a build that was killed leaves of a page."""


def why_not_here(root: Path, folder: Path) -> str:
    """Why a folder that `mkdocs.yml` names is refused, as a sentence part, or ""."""
    place = Path(os.path.normpath(root / folder))
    if not place.is_relative_to(root):
        return "lies outside the notebook"
    parts = place.relative_to(root).parts
    if not parts or parts[0] in ("notes", "templates") or any(part.startswith(".") for part in parts):
        return "is no folder of its own"
    links = [root.joinpath(*parts[: depth + 1]) for depth in range(len(parts))]
    if any(link.is_symlink() for link in links):
        return "is a link, or lies behind one"
    return ""


def check_site_folder(root: Path, folder: Path, chosen: Path | None = None) -> None:
    """Refuses a folder that the person did not name and that is not the notebook's own, and links that lead out of it.

    Args:
        root: Of the notebook.
        folder: Where the site will be written.
        chosen: The folder that the person named on the command line, if any.

    Raises:
        NotebookError: The site must not be written there.
    """
    why = why_not_here(root, folder) if chosen is None else ""
    if why:
        target = Path(os.path.normpath(root / folder))
        raise NotebookError(
            f"the site is not written to {target}: site_dir in mkdocs.yml {why}",
            hint=f"name the folder yourself: `labbook site build --site-dir {target}`",
        )
    leading_out = _link_out_of(folder)
    if leading_out is not None:
        raise NotebookError(
            f"the site is not written to {folder}: {leading_out} is a link that leads out of it",
            hint="remove the link, then build again",
        )


def written_files(site: Path, record: Path) -> set[str]:
    """Paths below the site's folder that labbook wrote; a name with a slash at its end stands for a folder.

    Args:
        site: The site's folder.
        record: Of the last build. Versions without a list left only their own files in the folder.
    """
    try:
        return set((site / LIST).read_text("utf-8", "surrogateescape").splitlines())
    except OSError:
        pass
    try:
        built_ns = record.stat().st_mtime_ns
    except OSError:
        return set()
    return {*KEPT_BY_OTHERS, *(path for path, (_, at_ns) in files_below(site).items() if at_ns <= built_ns)}


def note_written(site: Path, paths: Iterable[str]) -> None:
    """Replaces the list of the files that labbook wrote, where it differs.

    Raises:
        OSError: It cannot be written.
    """
    there = [name for name in KEPT_BY_OTHERS if (site / name).is_dir()]
    names = sorted({*there, *(path for path in paths if not path.startswith((".", *KEPT_BY_OTHERS)))})
    # A name with a line break in it is not on the list: its file is never removed.
    content = "".join(f"{name}\n" for name in names if name.splitlines() == [name]).encode("utf-8", "surrogateescape")
    target = site / LIST
    if not target.is_file() or target.read_bytes() != content:
        site.mkdir(parents=True, exist_ok=True)
        write_atomically(target, content, durable=False)


def check_kept_folders(site: Path, own: Container[str]) -> None:
    """Refuses folders for the search that somebody else made.

    Raises:
        NotebookError: There is one with files in it.
    """
    for name in KEPT_BY_OTHERS:
        folder = site / name
        if name not in own and folder.is_dir() and any(folder.iterdir()):
            raise _in_the_way(folder)


def make_room(site: Path, target: Path, own: Container[str]) -> None:
    """Makes the folder of a file of the site, and takes away labbook's own files that stand in the way.

    Raises:
        NotebookError: Somebody else's file is in the way.
    """
    if target.is_dir() and not target.is_symlink():
        name = target.relative_to(site).as_posix()
        for path in files_below(target):
            if f"{name}/{path}" not in own:
                raise _in_the_way(target / path)
            (target / path).unlink()
        for folder, _, _ in os.walk(target, topdown=False):
            Path(folder).rmdir()
    # The site's own folder is left as it is: it may be a link to where a web server looks.
    for above in list(target.relative_to(site).parents)[-2::-1]:
        place = site / above
        if os.path.lexists(place) and not place.is_dir():
            if above.as_posix() not in own:
                raise _in_the_way(place)
            place.unlink()
    target.parent.mkdir(parents=True, exist_ok=True)


def remove_left_over(site: Path, found: Iterable[str], expected: Container[str], own: Container[str]) -> int:
    """Removes files that labbook wrote and that no longer belong to the site, and folders that are empty then.

    Args:
        site: Its folder.
        found: Files in it.
        expected: Those that belong to it.
        own: Those that labbook wrote.

    Returns:
        How many were removed.
    """
    spared = (".", *KEPT_BY_OTHERS)
    left = [
        path
        for path in found
        if path not in expected and not path.startswith(spared) and (path in own or _HALF_WRITTEN.fullmatch(path))
    ]
    for path in left:
        # A folder may have taken its place meanwhile.
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError):
            (site / path).unlink()
    for folder in sorted({path.rpartition("/")[0] for path in left}, reverse=True):
        while folder:
            try:
                (site / folder).rmdir()
            except OSError:
                break
            folder = folder.rpartition("/")[0]
    return len(left)


def remove_written(site: Path, record: Path) -> set[str]:
    """Empties the folder of what labbook wrote, before another generator writes all of it; returns what is left.

    Raises:
        NotebookError: A folder that the search needs is somebody else's.
    """
    own = written_files(site, record)
    check_kept_folders(site, own)
    there = files_below(site, KEPT_BY_OTHERS)
    remove_left_over(site, there, (), own)
    return set(files_below(site, KEPT_BY_OTHERS))


def replace_site(site: Path, made: Path, record: Path) -> int:
    """Brings a site's folder to what a generator made elsewhere; returns how many pages it has.

    Raises:
        NotebookError: Somebody else's file is in the way.
        OSError: The folder cannot be written.
    """
    own, new = written_files(site, record), files_below(made)
    check_kept_folders(site, own)
    note_written(site, own | new.keys())
    for path in new:
        make_room(site, site / path, own)
        shutil.copyfile(made / path, site / path)
    remove_left_over(site, files_below(site, KEPT_BY_OTHERS), new, own)
    note_written(site, new)
    return sum(path.endswith(".html") for path in new)


def _in_the_way(path: Path) -> NotebookError:
    return NotebookError(
        f"{path} is in the way of the site, and labbook did not write it", hint="move it away, then build again"
    )


def _link_out_of(site: Path) -> Path | None:
    """A link in the folder that leads out of it, or `None`; hidden folders at the top are not the site's.

    Cost: 10,000 files in 6 to 13 ms; measured on 2 cores.
    """
    top = site.resolve()
    waiting = [str(site)]
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(here) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        if not Path(entry.path).resolve().is_relative_to(top):
                            return Path(entry.path)
                    elif entry.is_dir() and not (here == str(site) and entry.name.startswith(".")):
                        waiting.append(entry.path)
        except FileNotFoundError:
            continue
    return None
