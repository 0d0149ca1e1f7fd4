"""Confirms, changes or rejects what cured a failure, and writes it down: entries, page of the symptom, one commit."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labbook.errors import EntryError, NotebookError, NothingFoundError, UsageError
from labbook.fixes.propose_fix import as_texts, compare_failure, differences, read_front_matter, with_section
from labbook.frozen import dataclass
from labbook.model.confirmed_fix import Fix, Proposal, in_words
from labbook.store import frontmatter
from labbook.store.branch_checkout import restore_before_writing
from labbook.store.entry_text import read_text, to_bytes, with_block
from labbook.store.journal import write_atomically
from labbook.store.paths import check_stays_inside, is_run_id

if TYPE_CHECKING:
    from labbook.store.entry_commit import CommitOutcome
    from labbook.store.notebook import Notebook

_MOST_TEXT = 500
_MOST_PAGES = 3
"""Symptoms whose pages a fix is written to. Source: chosen by us; a run that is cured of more shows them itself."""


@dataclass(frozen=True)
class Written:
    """What was written down.

    Args:
        status: "confirmed" or "rejected".
        fix: What cured which run; `by` is the run that was rejected.
        files: Absolute paths.
        commit: What became of the commit.
    """

    status: str
    fix: Fix
    files: tuple[Path, ...]
    commit: CommitOutcome


def confirm(notebook: Notebook, run: str, by: str = "", text: str = "") -> Written:
    """Writes down what cured a run.

    Args:
        notebook: Where both runs are.
        run: The run that failed, or the one whose proposal is meant; "last", an id, its beginning or end.
        by: The run that was cured; the proposed one when it is not named.
        text: What the fix was, in people's words.

    Raises:
        NothingFoundError: A run is not there, or no later run came past the failure.
        UsageError: The run did not fail, is its own cure, has this fix already, or the cure shows the same failure.
        EntryError: An entry cannot be read, or the words may hold a secret.
    """
    text = " ".join(text.split())[:_MOST_TEXT]
    _refuse_secret(notebook, text)
    failed, proposed = _meant(notebook, run)
    meta = _meta(notebook, failed)
    known = str(meta.get("fix") or "")
    cure = _named(notebook, by, failed) if by else proposed or (known if is_run_id(known) else "")
    found = _checked(notebook, failed, cure) if cure else _next(notebook, failed, meta, bool(text))
    cure = found.by if found else ""
    if known and known == (cure or text) and (not text or text == meta.get("fix_text")):
        raise UsageError(
            f"the fix of {failed} is already noted: {_told(meta)}",
            hint=f"`-m` gives it other words, `labbook fix {failed} --reject` takes it back",
        )
    if known and not by and not text and known != cure:
        raise UsageError(
            f"the run {failed} has a fix already: {_told(meta)}",
            hint=f"`labbook fix {failed} --by {cure}` puts another in its place",
        )
    fix = _fix(notebook, failed, meta, found, text)
    files = [_write_failed(notebook, fix)]
    if found is not None:
        files.append(_write_cure(notebook, replace(found, confirmed=True)))
    if is_run_id(known) and known != fix.by:
        files += _forget_cure(notebook, known, failed)
    files += _write_pages(notebook, fix.symptoms, files)
    title = str(meta.get("title") or failed)
    message = f"Fix of {title}: {fix.text}"[:200]
    message += f"\n\nRun: {failed}\n" + (f"Cured in: {fix.by}\n" if fix.by else "")
    return Written("confirmed", fix, tuple(files), _commit(notebook, files, message))


def reject(notebook: Notebook, run: str, by: str = "") -> Written:
    """Writes down that a run did not cure another one: it is not proposed again, and a fix by it is taken back.

    Args:
        notebook: Where both runs are.
        run: The run that failed, or the one whose proposal is meant.
        by: The run that is no cure; the proposed or confirmed one when it is not named.

    Raises:
        NothingFoundError: A run is not there, or there is nothing to reject.
        UsageError: The run did not fail, or this was rejected before.
    """
    failed, proposed = _meant(notebook, run)
    meta = _meta(notebook, failed)
    known = str(meta.get("fix") or "")
    cure = _named(notebook, by, failed) if by else known or proposed
    if not cure:
        found = _next(notebook, failed, meta, quiet=True)
        if found is None:
            raise NothingFoundError(f"nothing is proposed as the fix of {failed}", hint="so nothing needs rejecting")
        cure = found.by
    rejected = as_texts(meta, "fix_rejected")
    if cure in rejected:
        raise UsageError(f"{cure} was rejected as the fix of {failed} before", hint="nothing needs to be done")
    changed: dict[str, Any] = {"fix": meta.get("fix")}
    symptoms: tuple[str, ...] = ()
    if known == cure:
        changed = {"fix": None, "fix_text": None}
        symptoms = tuple(as_texts(meta, "symptoms"))
    if is_run_id(cure):
        changed["fix_rejected"] = [*rejected, cure]
    files = [_rewritten(notebook, failed, changed, "fix", "" if known == cure else None)]
    files += _forget_cure(notebook, cure, failed) if is_run_id(cure) else []
    files += _write_pages(notebook, symptoms, files, existing=True)
    message = f"No fix of {meta.get('title') or failed}: {cure}\n\nRun: {failed}\n"
    fix = Fix(failed, cure if is_run_id(cure) else "", "" if is_run_id(cure) else cure)
    return Written("rejected", fix, tuple(files), _commit(notebook, files, message))


def _meant(notebook: Notebook, word: str) -> tuple[str, str]:
    """The run that failed, and the cure that is proposed where the run that was named is that.

    Raises:
        UsageError: The run did not fail and is no cure of another.
    """
    from labbook.index.query import find_run

    entry = find_run(notebook, word)
    meta = entry.meta
    earlier = str(meta.get("may_cure") or "") or next(iter(reversed(as_texts(meta, "cures"))), "")
    if earlier and meta.get("status") == "finished" and read_front_matter(notebook.paths, earlier) is not None:
        return earlier, entry.id
    if meta.get("status") == "running":
        raise UsageError(f"the run {entry.id} has not ended yet", hint="a fix is noted when it has failed")
    if meta.get("status") == "finished" and not as_texts(meta, "symptoms"):
        raise UsageError(
            f"the run {entry.id} did not fail, and nothing was found in it",
            hint="`labbook list status:failed` shows runs that did",
        )
    return entry.id, ""


def _named(notebook: Notebook, word: str, failed: str) -> str:
    from labbook.index.query import find_run

    cure = find_run(notebook, word).id
    if cure == failed:
        raise UsageError(f"the run {failed} cannot be its own cure", hint="name the run that no longer fails")
    return cure


def _meta(notebook: Notebook, run_id: str) -> Mapping[str, Any]:
    meta = read_front_matter(notebook.paths, run_id)
    if meta is None:
        raise EntryError(
            f"the entry of {run_id} cannot be read", hint="correct its front matter: the lines between the two `---`"
        )
    return meta


def _checked(notebook: Notebook, failed: str, cure: str) -> Proposal:
    """The cure that somebody named, with its differences.

    Raises:
        UsageError: It began before the failure, or shows the same.
    """
    from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
    from labbook.fixes.fix_candidates import list_failing_files, rank_changes
    from labbook.report.run_data import load_run

    before, after = _meta(notebook, failed), _meta(notebook, cure)
    if str(after.get("started") or "") < str(before.get("started") or ""):
        raise UsageError(f"the run {cure} began before {failed}: it cannot be its cure", hint="name a later run")
    gone = tuple(name for name in as_texts(before, "symptoms") if name not in as_texts(after, "symptoms"))
    other = [one for one in as_texts(before, "fingerprints") if one not in as_texts(after, "fingerprints")]
    named = bool(before.get("symptoms") or before.get("fingerprints"))
    if named and not gone and not other:
        raise UsageError(f"the run {cure} shows the same as {failed}: it cured nothing", hint="name a run without it")
    status = str(after.get("status") or "")
    known = after.get("symptoms") or after.get("fingerprints") or status == "interrupted"
    if status != "finished" and not (named and known):
        raise UsageError(f"the run {cure} did not finish: it cured nothing", hint="name a run that did")
    run = load_run(notebook.paths, cure)
    found = compare_failure(notebook, failed, run) if run is not None else None
    if found is not None:
        return found
    # It did not come as far, or was not observed as well; somebody knows better.
    earlier = load_run(notebook.paths, failed)
    if run is None or earlier is None:
        return Proposal(failed, cure, gone, by_title=str(after.get("title") or ""))
    known = load_catalogue(notebook.paths.symptoms).symptoms
    changes = rank_changes(differences(notebook, earlier, run), gone, known, list_failing_files(earlier))
    return Proposal(failed, cure, gone, (), changes, by_title=run.title)


def _next(notebook: Notebook, failed: str, meta: Mapping[str, Any], quiet: bool) -> Proposal | None:
    """The first later run that came past the failure and was not rejected.

    Args:
        notebook: Where to look.
        failed: The run that failed.
        meta: Its front matter.
        quiet: Whether it may be missing.

    Raises:
        NothingFoundError: There is none, and it may not be missing.
    """
    from labbook.fixes.fix_history import later_runs
    from labbook.report.run_data import load_run

    rejected = as_texts(meta, "fix_rejected")
    for name in later_runs(notebook, failed):
        run = load_run(notebook.paths, name) if name not in rejected else None
        found = compare_failure(notebook, failed, run) if run is not None else None
        if found is not None:
            return found
    if quiet:
        return None
    raise NothingFoundError(
        f"no later run is known to have come past the failure of {failed}",
        hint=f'name it: `labbook fix {failed} --by RUN`, or say what the fix was: `labbook fix {failed} -m "..."`',
    )


def _fix(notebook: Notebook, failed: str, meta: Mapping[str, Any], found: Proposal | None, text: str) -> Fix:
    if found is None:
        return Fix(failed, "", text, tuple(as_texts(meta, "symptoms")[:1]))
    said = text or in_words(found.changes) or f"no difference is known; see {found.by}"
    symptoms = found.symptoms or tuple(as_texts(meta, "symptoms")[:1])
    diff = "\n".join(change.detail for change in found.changes if change.kind == "code" and "\n@@ " in change.detail)
    return Fix(failed, found.by, " ".join(said.split())[:_MOST_TEXT], symptoms, found.changes, diff)


def _write_failed(notebook: Notebook, fix: Fix) -> Path:
    from labbook.report.entry.fix_section import fix_markdown

    return _rewritten(
        notebook, fix.run, {"fix": fix.by or fix.text, "fix_text": fix.text}, "fix", fix_markdown(notebook, fix)
    )


def _write_cure(notebook: Notebook, found: Proposal) -> Path:
    meta = _meta(notebook, found.by)
    cures = list(dict.fromkeys([*as_texts(meta, "cures"), found.failed]))
    changed: dict[str, Any] = {"fix": meta.get("fix"), "cures": cures}
    if meta.get("may_cure") == found.failed:
        changed["may_cure"] = None
    return _rewritten(notebook, found.by, changed, "cures", _cures(notebook, found.by, cures, found))


def _cures(notebook: Notebook, cure: str, names: Sequence[str], known: Proposal | None = None) -> str:
    """The section of a run that cured these, the newest first."""
    from labbook.report.entry.fix_section import cures_markdown
    from labbook.report.run_data import load_run

    run = load_run(notebook.paths, cure)
    told = []
    for name in list(reversed(names))[:_MOST_PAGES]:
        found = known if known is not None and known.failed == name else None
        if found is None and run is not None:
            found = compare_failure(notebook, name, run)
        told.append(cures_markdown(notebook, replace(found or Proposal(name, cure), confirmed=True)))
    return "\n".join(told)


def _forget_cure(notebook: Notebook, cure: str, failed: str) -> list[Path]:
    """Takes a failure out of the entry of the run that was its cure, or was proposed as that."""
    meta = read_front_matter(notebook.paths, cure)
    if meta is None or (failed not in as_texts(meta, "cures") and meta.get("may_cure") != failed):
        return []
    left = [name for name in as_texts(meta, "cures") if name != failed]
    changed: dict[str, Any] = {"cures": left} if meta.get("cures") else {}
    if meta.get("may_cure") == failed:
        changed["may_cure"] = None
    return [_rewritten(notebook, cure, changed, "cures", _cures(notebook, cure, left))]


def _rewritten(notebook: Notebook, run_id: str, meta: Mapping[str, Any], block: str, content: str | None) -> Path:
    """Sets keys of an entry's front matter and one block of it; `None` leaves the block as it is.

    Raises:
        NotebookError: The entry cannot be written.
        EntryError: Its front matter cannot be read.
    """
    path = notebook.paths.entry(run_id)
    check_stays_inside(path, notebook.paths.root)
    try:
        page = frontmatter.update(read_text(path), meta, path.name)
        if content is not None:
            page = with_section(page, block, content)
        write_atomically(path, to_bytes(page))
    except OSError as error:
        raise _not_written(path, error) from error
    return path


def _write_pages(
    notebook: Notebook, symptoms: Sequence[str], entries: Sequence[Path], *, existing: bool = False
) -> list[Path]:
    """Writes the confirmed fixes of symptoms into the notebook's pages of them; people's text in them stays.

    Args:
        notebook: The notebook.
        symptoms: Ids.
        entries: Entries that were just written, which the index has to read first.
        existing: Whether only pages that are there are written.
    """
    from labbook.fixes.fix_history import fixed_runs
    from labbook.index.build import refresh
    from labbook.report.entry.fix_section import symptom_fixes_markdown

    wanted = [name for name in symptoms if name.replace("_", "").isalnum() and name.isascii()][:_MOST_PAGES]
    written = []
    if wanted:
        restore_before_writing(notebook, notebook.paths.symptoms)
        refresh(notebook, entries)
    for name in wanted:
        path = notebook.paths.symptoms / f"{name}.md"
        check_stays_inside(path, notebook.paths.root)
        if existing and not path.exists():
            continue
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            new = _new_page(notebook, name)
            page = read_text(path) if path.exists() else new
            page = with_block(page, "fixes", symptom_fixes_markdown(notebook, path, fixed_runs(notebook, name)))
            if page.split() == new.split():
                # Nobody has written in it, and no fix is left.
                path.unlink(missing_ok=True)
            else:
                write_atomically(path, to_bytes(page))
        except OSError as error:
            raise _not_written(path, error) from error
        written.append(path)
    if written:
        refresh(notebook, written)
    return written


def _new_page(notebook: Notebook, symptom: str) -> str:
    from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
    from labbook.store.escape import prose

    title = load_catalogue().title(symptom, notebook.config.language_in_use())
    # No title in the front matter: the page would give the symptom of the catalogue another one.
    return frontmatter.emit({"id": symptom}) + f"\n# {prose(title)}\n\n"


def _commit(notebook: Notebook, files: Sequence[Path], message: str) -> CommitOutcome:
    from labbook.store.entry_commit import commit_files

    return commit_files(notebook, list(dict.fromkeys(files)), message, when=time.time())


def _refuse_secret(notebook: Notebook, text: str) -> None:
    from labbook.store.recorder_redaction import make_redactor

    if text and make_redactor(os.environ, (), notebook.redaction_rules()).text(text) != text:
        raise EntryError("the words of the fix may hold a secret: nothing was written", hint="say it without the value")


def _told(meta: Mapping[str, Any]) -> str:
    fix, text = str(meta.get("fix") or ""), str(meta.get("fix_text") or "")
    return f"{text} (in {fix})" if is_run_id(fix) and text else text or fix


def _not_written(path: Path, error: OSError) -> NotebookError:
    return NotebookError(f"cannot write {path}: {error.strerror or error}", hint="free space or permissions there")
