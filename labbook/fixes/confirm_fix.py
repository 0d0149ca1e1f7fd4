"""Confirms, changes or rejects the fix of a failure, in both entries and the symptom's page."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labbook.errors import EntryError, NotebookError, NothingFoundError, UsageError
from labbook.fixes.propose_fix import (
    find_cured_failure,
    find_open_proposal,
    list_candidates,
    read_front_matter,
    read_texts,
    set_section,
)
from labbook.frozen import dataclass
from labbook.model.confirmed_fix import Fix, Proposal, describe_proposal
from labbook.model.message import message
from labbook.store.commit.branch_checkout import restore_before_writing
from labbook.store.journal import write_atomically
from labbook.store.paths import check_stays_inside, is_run_id
from labbook.store.text import frontmatter
from labbook.store.text.entry_text import change_entry, read_text, set_block, to_bytes
from labbook.store.text.escape import prose
from labbook.store.text.sentences import Sentences

if TYPE_CHECKING:
    from labbook.store.commit.entry_commit import CommitOutcome
    from labbook.store.notebook import Notebook

_MAX_TEXT = 500
_MAX_PAGES = 3
"""Maximum symptom pages that a fix is written to. Source: chosen by us; the entry of the run shows all symptoms."""


@dataclass(frozen=True)
class RecordedFix:
    """A fix that was confirmed or rejected, with the files written.

    Args:
        status: "confirmed" or "rejected".
        fix: The fix; of a rejected one, `by` is the rejected run.
        files: Absolute paths.
    """

    status: str
    fix: Fix
    files: tuple[Path, ...]
    commit: CommitOutcome


def confirm(notebook: Notebook, run: str, by: str = "", text: str = "") -> RecordedFix:
    """Writes the fix of a failed run into both entries and the symptom's page, and commits them.

    Args:
        run: The failed run, or the fixed run that has a proposal; "last", an id, its beginning or end.
        by: The fixed run; "" for the proposed one.
        text: A description of the fix, "" for the differences of the two runs.

    Raises:
        NothingFoundError: A run does not exist, or no later run passed the failure.
        UsageError: The run did not fail, `by` is the same run or shows the same failure, or the fix is known already.
        EntryError: An entry cannot be read, or the description may contain a secret.
    """
    text = " ".join(text.split())[:_MAX_TEXT]
    _refuse_secret(notebook, text)
    fix, proposal, known, meta = _prepare(notebook, run, by, text)
    failed = fix.run
    files = [_write_fixed(notebook, fix)]
    if proposal is not None:
        files.append(_write_cure(notebook, replace(proposal, confirmed=True)))
    if is_run_id(known) and known != fix.by:
        files += _remove_cure(notebook, known, failed)
    files += _write_pages(notebook, fix.symptoms, files)
    title = str(meta.get("title") or failed)
    message = f"Fix of {title}: {fix.text}"[:200]
    message += f"\n\nRun: {failed}\n" + (f"Fixed in: {fix.by}\n" if fix.by else "")
    return RecordedFix("confirmed", fix, tuple(files), _commit(notebook, files, message))


def preview(notebook: Notebook, run: str, by: str = "") -> Fix:
    """Returns the fix that `confirm` would write without a description; arguments and errors are the same."""
    return _prepare(notebook, run, by, "")[0]


def _prepare(notebook: Notebook, run: str, by: str, text: str) -> tuple[Fix, Proposal | None, str, Mapping[str, Any]]:
    """Returns the fix to write, what it rests on, the fix known so far, and the front matter of the failed run."""
    failed, proposed = _find_failure(notebook, run)
    meta = _read_meta(notebook, failed)
    known = _known_fix(notebook, meta)
    cure = _find_cure(notebook, by, failed) if by else proposed or (known if is_run_id(known) else "")
    proposal = _compare_with(notebook, failed, cure) if cure else _find_next_cure(notebook, failed, meta, bool(text))
    cure = proposal.by if proposal else ""
    if known and known == (cure or text) and (not text or text == meta.get("fix_text")):
        raise UsageError("errors.fix.already_recorded", failed=failed, fix=_describe_fix(meta))
    if known and not by and not text and known != cure:
        raise UsageError("errors.fix.has_another", failed=failed, cure=cure, fix=_describe_fix(meta))
    return _make_fix(notebook, failed, meta, proposal, text), proposal, known, meta


def _known_fix(notebook: Notebook, meta: Mapping[str, Any]) -> str:
    """Returns the recorded fix of a failed run: the id of a run or words; "" if that run has been removed."""
    known = str(meta.get("fix") or "")
    return "" if is_run_id(known) and not notebook.paths.entry(known).exists() else known


def reject(notebook: Notebook, run: str, by: str = "") -> RecordedFix:
    """Writes that a run did not fix another one, and removes it as fix and as proposal.

    Args:
        run: The failed run, or the run that has a proposal.
        by: The run to reject; "" for the proposed or confirmed one.

    Raises:
        NothingFoundError: A run does not exist, or there is nothing to reject.
        UsageError: The run did not fail, or `by` is rejected already.
    """
    failed, proposed = _find_failure(notebook, run)
    meta = _read_meta(notebook, failed)
    known = str(meta.get("fix") or "")
    cure = _find_cure(notebook, by, failed) if by else known or proposed
    if not cure:
        proposal = _find_next_cure(notebook, failed, meta, quiet=True)
        if proposal is None:
            raise NothingFoundError("errors.fix.nothing_proposed", failed=failed)
        cure = proposal.by
    rejected = read_texts(meta, "fix_rejected")
    if cure in rejected:
        raise UsageError("errors.fix.already_rejected", cure=cure, failed=failed)
    changed: dict[str, Any] = {"fix": meta.get("fix")}
    symptoms: tuple[str, ...] = ()
    if known == cure:
        changed = {"fix": None, "fix_text": None}
        symptoms = tuple(read_texts(meta, "symptoms"))
    if is_run_id(cure):
        changed["fix_rejected"] = [*rejected, cure]
    files = [_update_entry(notebook, failed, changed, "fix", "" if known == cure else None)]
    files += _remove_cure(notebook, cure, failed) if is_run_id(cure) else []
    files += _write_pages(notebook, symptoms, files, existing=True)
    message = f"No fix of {meta.get('title') or failed}: {cure}\n\nRun: {failed}\n"
    fix = Fix(failed, cure if is_run_id(cure) else "", "" if is_run_id(cure) else cure)
    return RecordedFix("rejected", fix, tuple(files), _commit(notebook, files, message))


def _find_failure(notebook: Notebook, word: str) -> tuple[str, str]:
    """Returns the failed run, and the fixed run if `word` names that one instead.

    "last" is the last run of the project that has ended, or its newest open proposal if nothing was found in that run.

    Raises:
        UsageError: The run did not fail and did not fix another one.
    """
    from labbook.index.query import find_run

    entry = find_run(notebook, word, has_ended=True)
    meta = entry.meta
    earlier = str(meta.get("may_cure") or "") or next(iter(reversed(read_texts(meta, "cures"))), "")
    if earlier and meta.get("status") == "finished" and read_front_matter(notebook.paths, earlier) is not None:
        return earlier, entry.id
    if meta.get("status") == "running":
        raise UsageError("errors.run.not_ended_fix", run=entry.id)
    if meta.get("status") == "finished" and not read_texts(meta, "symptoms"):
        found = find_open_proposal(notebook.paths, str(meta.get("project") or "")) if word == "last" else None
        if found is not None:
            return found
        raise UsageError("errors.fix.did_not_fail", run=entry.id)
    return entry.id, ""


def _find_cure(notebook: Notebook, word: str, failed: str) -> str:
    from labbook.index.query import find_run

    cure = find_run(notebook, word).id
    if cure == failed:
        raise UsageError("errors.fix.itself", failed=failed)
    return cure


def _read_meta(notebook: Notebook, run_id: str) -> Mapping[str, Any]:
    meta = read_front_matter(notebook.paths, run_id)
    if meta is None:
        raise EntryError("errors.fix.entry_not_readable", run=run_id)
    return meta


def _compare_with(notebook: Notebook, failed: str, cure: str) -> Proposal:
    """Returns the proposal for a run that the user named, with the differences.

    Raises:
        UsageError: The run started before the failure, or shows the same failure.
    """
    from labbook.report.run_data import load_run

    before, after = _read_meta(notebook, failed), _read_meta(notebook, cure)
    is_one_clock = after.get("host") == before.get("host")  # that of another machine may be ahead
    if is_one_clock and str(after.get("started") or "") < str(before.get("started") or ""):
        raise UsageError("errors.fix.started_before", cure=cure, failed=failed)
    gone = tuple(name for name in read_texts(before, "symptoms") if name not in read_texts(after, "symptoms"))
    other = [one for one in read_texts(before, "fingerprints") if one not in read_texts(after, "fingerprints")]
    has_failure = bool(before.get("symptoms") or before.get("fingerprints"))
    if has_failure and not gone and not other:
        raise UsageError("errors.fix.same_failure", cure=cure, failed=failed)
    status = str(after.get("status") or "")
    known = after.get("symptoms") or after.get("fingerprints") or status == "interrupted"
    if status != "finished" and not (has_failure and known):
        raise UsageError("errors.fix.not_finished", cure=cure)
    run = load_run(notebook.paths, cure)
    proposal = find_cured_failure(notebook, failed, run) if run is not None else None
    if proposal is not None:
        return proposal
    # The run made fewer steps or was observed less, but the user knows better.
    earlier = load_run(notebook.paths, failed)
    if run is None or earlier is None:
        return Proposal(failed, cure, gone)
    return list_candidates(notebook, earlier, run, Proposal(failed, cure, gone))


def _find_next_cure(notebook: Notebook, failed: str, meta: Mapping[str, Any], quiet: bool) -> Proposal | None:
    """Returns the first later run that passed the failure and was not rejected; `meta` is that of the failed run.

    Raises:
        NothingFoundError: There is none, and `quiet` is false.
    """
    from labbook.fixes.fix_history import find_later_runs
    from labbook.report.run_data import load_run

    rejected = read_texts(meta, "fix_rejected")
    for name in find_later_runs(notebook, failed):
        run = load_run(notebook.paths, name) if name not in rejected else None
        proposal = find_cured_failure(notebook, failed, run) if run is not None else None
        if proposal is not None:
            return proposal
    if quiet:
        return None
    raise NothingFoundError("errors.fix.no_later_run", failed=failed)


def _make_fix(notebook: Notebook, failed: str, meta: Mapping[str, Any], proposal: Proposal | None, text: str) -> Fix:
    if proposal is None:
        return Fix(failed, "", text, tuple(read_texts(meta, "symptoms")[:1]))
    say = Sentences(notebook.config.language_in_use(), notebook.paths.templates)
    known = describe_proposal(proposal) or message("capture.difference.unknown", run=proposal.by)
    description = text or say(known)
    symptoms = proposal.symptoms or tuple(read_texts(meta, "symptoms")[:1])
    text = " ".join(description.split())[:_MAX_TEXT]
    return Fix(failed, proposal.by, text, symptoms, proposal.changes, proposal.diff)


def _write_fixed(notebook: Notebook, fix: Fix) -> Path:
    from labbook.report.entry.fix_section import fix_markdown

    changed = {"fix": fix.by or fix.text, "fix_text": fix.text}
    return _update_entry(notebook, fix.run, changed, "fix", fix_markdown(notebook, fix))


def _write_cure(notebook: Notebook, proposal: Proposal) -> Path:
    meta = _read_meta(notebook, proposal.by)
    cures = list(dict.fromkeys([*read_texts(meta, "cures"), proposal.failed]))
    changed: dict[str, Any] = {"fix": meta.get("fix"), "cures": cures}
    if meta.get("may_cure") == proposal.failed:
        changed["may_cure"] = None
    section = _cures_section(notebook, proposal.by, cures, proposal)
    return _update_entry(notebook, proposal.by, changed, "cures", section)


def _cures_section(notebook: Notebook, cure: str, names: Sequence[str], known: Proposal | None = None) -> str:
    """Returns the section that lists the failures that a run fixed, newest first."""
    from labbook.report.entry.fix_section import cures_markdown
    from labbook.report.run_data import load_run

    run = load_run(notebook.paths, cure)
    sections = []
    for name in list(reversed(names))[:_MAX_PAGES]:
        proposal = known if known is not None and known.failed == name else None
        if proposal is None and run is not None:
            proposal = find_cured_failure(notebook, name, run)
        sections.append(cures_markdown(notebook, replace(proposal or Proposal(name, cure), confirmed=True)))
    return "\n".join(sections)


def _remove_cure(notebook: Notebook, cure: str, failed: str) -> list[Path]:
    """Removes a failure from the entry of the run that fixed it or was proposed to."""
    meta = read_front_matter(notebook.paths, cure)
    if meta is None or (failed not in read_texts(meta, "cures") and meta.get("may_cure") != failed):
        return []
    left = [name for name in read_texts(meta, "cures") if name != failed]
    changed: dict[str, Any] = {"cures": left} if meta.get("cures") else {}
    if meta.get("may_cure") == failed:
        changed["may_cure"] = None
    return [_update_entry(notebook, cure, changed, "cures", _cures_section(notebook, cure, left))]


def _update_entry(notebook: Notebook, run_id: str, meta: Mapping[str, Any], block: str, content: str | None) -> Path:
    """Sets keys of an entry's front matter and one block; `None` leaves the block unchanged.

    Raises:
        NotebookError: The entry cannot be written.
        EntryError: Its front matter cannot be read.
    """

    def update(page: str) -> str:
        page = frontmatter.update(page, meta, f"{run_id}.md")
        return page if content is None else set_section(page, block, content)

    return change_entry(notebook.paths, run_id, update)


def _write_pages(
    notebook: Notebook, symptoms: Sequence[str], entries: Sequence[Path], *, existing: bool = False
) -> list[Path]:
    """Writes the confirmed fixes of symptoms into the notebook's symptom pages, and returns the pages.

    Args:
        symptoms: Ids of symptoms.
        entries: Entries that were just written, which the index has to read first.
        existing: Write only pages that exist.
    """
    from labbook.fixes.fix_history import list_fixed_runs
    from labbook.index.build import refresh
    from labbook.report.entry.fix_section import symptom_fixes_markdown

    wanted = [name for name in symptoms if name.replace("_", "").isalnum() and name.isascii()][:_MAX_PAGES]
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
            new = _new_symptom_page(notebook, name)
            page = read_text(path) if path.exists() else new
            page = set_block(page, "fixes", symptom_fixes_markdown(notebook, path, list_fixed_runs(notebook, name)))
            if page.split() == new.split():
                # The page has no fix any more and no text of people.
                path.unlink(missing_ok=True)
            else:
                write_atomically(path, to_bytes(page))
        except OSError as error:
            raise NotebookError("errors.file.not_written", path=path, reason=error) from error
        written.append(path)
    if written:
        refresh(notebook, written)
    return written


def _new_symptom_page(notebook: Notebook, symptom: str) -> str:
    from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue

    title = load_catalogue().title(symptom, notebook.config.language_in_use())
    # No title in the front matter: it would replace the title of the catalogue.
    return frontmatter.emit({"id": symptom}) + f"\n# {prose(title)}\n\n"


def _commit(notebook: Notebook, files: Sequence[Path], message: str) -> CommitOutcome:
    from labbook.store.commit.entry_commit import commit_files

    return commit_files(notebook, list(dict.fromkeys(files)), message, when=time.time())


def _refuse_secret(notebook: Notebook, text: str) -> None:
    from labbook.store.recorder_redaction import make_redactor

    if text and make_redactor(os.environ, (), notebook.redaction_rules()).text(text) != text:
        raise EntryError("errors.fix.secret")


def _describe_fix(meta: Mapping[str, Any]) -> str:
    fix, text = str(meta.get("fix") or ""), str(meta.get("fix_text") or "")
    return f"{text} (in {fix})" if is_run_id(fix) and text else text or fix
