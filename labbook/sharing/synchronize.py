"""Shares a notebook with a remote: commit edited notes, fetch, merge, push, and again when somebody was faster."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Mapping

from labbook.errors import GitError
from labbook.frozen import dataclass
from labbook.sharing.disk_update import (
    complete_clone,
    files_left,
    notebook_ref,
)
from labbook.sharing.local_merge import align_disk, bring_to, commit_edited, lock_sharing, merge_commits
from labbook.sharing.remote_git import GitCall, Remote, SilentRemoteError, tracking_ref
from labbook.sharing.tree_diff import PathChange, diff_trees, is_ancestor, merge_bases, runs_among, text_path
from labbook.store.commit.sync_state import read_state, shared_commits, tracking_marks, update_state
from labbook.store.git.git_process import read_blobs, run_git
from labbook.store.git.git_state import read_commit

_ATTEMPTS = 12
"""Most pushes of one sync. Source: chosen by us; 8 clones that push at once needed at most 7 here."""
_SCHEMA = 1
"""Newest `schema` of notes that this labbook knows."""
_LOOKED_AT = 500

KEEP = "keep"
FOLLOW = "follow"
"""What to do with entries that a rewritten history of the remote no longer has: share them again, or remove them."""


@dataclass(frozen=True)
class SyncResult:
    """The result of a sync.

    Args:
        commit: Commit that the branch has here and there, or "".
        received: Number of entries of runs that came.
        sent: Number of entries of runs that went.
        received_files: Number of changed files that came.
        sent_files: Number of changed files that went.
        conflicts: Notes in which two versions of the same lines stay, and entries of runs that got another id because
            another run has theirs; relative to the repository.
        unsent: Notes that were not committed, each with the reason.
        newer: Number of notes that came from a newer labbook.
        parts: Number of entries that came and lack ranks of their job.
        left: Files that others deleted and that stay on disk because they were edited here.
    """

    remote: str
    branch: str
    commit: str
    received: int = 0
    sent: int = 0
    received_files: int = 0
    sent_files: int = 0
    conflicts: tuple[str, ...] = ()
    unsent: tuple[tuple[str, str], ...] = ()
    newer: int = 0
    parts: int = 0
    left: tuple[str, ...] = ()


def synchronize(remote: Remote, *, rewritten: str = "") -> SyncResult:
    """Share the notebook with a remote and return what went and came.

    The branch moves after the push only: a sync that is killed anywhere can be repeated.

    Args:
        rewritten: What to do when the history of the remote was replaced: "keep", "follow", or "" to stop.

    Raises:
        GitError: The remote cannot be reached or refuses, or a work tree is in the way. What was fetched is merged
            here even if it cannot be pushed.
    """
    notebook, folders = remote.notebook, remote.folders
    ref = notebook_ref(notebook, folders)
    with lock_sharing(folders):
        try:
            result = _Sync(remote, ref, rewritten).run()
        except GitError as error:
            facts = {"error": error.message, "advice": error.hint, "failure": error.as_data()}
            update_state(notebook, time=_utc_now(), remote=remote.name, printed=True, **facts)
            raise
    state = read_state(notebook)
    marks: dict[str, object] = {"shared": {**shared_commits(state), remote.name: result.commit}}
    if "tracked" in state and read_commit(folders, tracking_ref(remote.name, ref)) == result.commit:
        marks["tracked"] = tracking_marks(notebook, folders)  # the next command need not look again
    update_state(
        notebook, time=_utc_now(), remote=remote.name, error="", advice="", failure=None, printed=True, **marks
    )
    return result


class _Sync:
    """One sync, from the first look to the last push."""

    def __init__(self, remote: Remote, ref: str, rewritten: str) -> None:
        self.remote, self.notebook, self.folders = remote, remote.notebook, remote.folders
        self.ref, self.rewritten = ref, rewritten
        self.tracking = tracking_ref(remote.name, ref)
        self.conflicts: set[bytes] = set()
        self.attempts = 0

    def run(self) -> SyncResult:
        if self.remote.lacks_contents(self.ref):
            complete_clone(self.remote, self.ref)
        shared = shared_commits(read_state(self.notebook))
        known = shared.get(self.remote.name) or read_commit(self.folders, self.tracking)
        sent = read_commit(self.folders, self.ref)
        if not sent:
            self.remote.fetch(self.ref)  # else what is on disk may be committed onto a commit that comes just then
        ahead, remote = self._is_ahead(sent, known), self.remote
        call = remote.start_push(sent, self.ref, only_from=known) if ahead else remote.start_fetch(self.ref)
        try:
            align_disk(self.notebook, self.folders, self.ref)  # all this while the remote answers
            unsent = commit_edited(self.notebook, diff_trees(self.folders, known, sent) if ahead else {})
        except BaseException:
            self.remote.stop(call)
            raise
        start = read_commit(self.folders, self.ref)
        if ahead and self._is_pushed(call):
            first, seen, theirs = known, sent, sent
        else:
            theirs = self.remote.fetch(self.ref) if ahead else self.remote.fetched(call, self.ref)
            first, seen = theirs, known
        if not theirs and not start:
            raise GitError("sync.error.empty", remote=self.remote.name)
        while True:
            local = read_commit(self.folders, self.ref)
            merged, base = self._merge(local, theirs, seen)
            if merged != theirs and not self._push(merged, theirs, local):
                seen, theirs = theirs, self.remote.fetch(self.ref)
                continue
            tip, conflicts = bring_to(self.notebook, self.folders, self.ref, merged, local, base)
            self.conflicts |= set(conflicts)
            if tip == merged:
                break
            seen, theirs = merged, self.remote.fetch(self.ref)
        return self._result(start if sent or not first else "", first, tip, unsent)

    def _is_ahead(self, local: str, known: str) -> bool:
        """Whether the branch only adds to what the remote had: then one connection sends it, and nothing is fetched."""
        if not known or not local or local == known or read_commit(self.folders, self.tracking) != known:
            return False
        return is_ancestor(self.folders, known, local)

    def _is_pushed(self, call: GitCall) -> bool:
        """Whether the first push succeeded; if not, what the remote has is fetched, and the next push says why.

        Raises:
            SilentRemoteError: The remote did not answer; asking again would take as long.
        """
        self.attempts += 1
        try:
            return self.remote.wait_for_push(call).status == "ok"
        except SilentRemoteError:
            raise
        except GitError:
            return False

    def _merge(self, local: str, theirs: str, seen: str) -> tuple[str, str | None]:
        """Return the commit to share, and the ancestor that was used if it is not the common one."""
        if not theirs or not local or local == theirs:
            return local or theirs, None
        base = None
        if seen and seen != theirs and not is_ancestor(self.folders, seen, theirs):
            base = self._base_after_rewrite(seen, theirs, local)
        elif (self.folders.common_dir / "shallow").exists() and not merge_bases(self.folders, local, theirs):
            self.remote.fetch(self.ref, unshallow=True)
        if base is not None:
            merged, conflicts = merge_commits(self.notebook, self.folders, theirs, local, base, one_parent=True)
        else:
            merged, conflicts = merge_commits(self.notebook, self.folders, local, theirs, None)
        self.conflicts |= set(conflicts)
        return merged, base

    def _base_after_rewrite(self, seen: str, theirs: str, local: str) -> str | None:
        """Return the ancestor for a merge with a history that was replaced; `None` merges everything again.

        Raises:
            GitError: Entries would vanish or come back, and nobody has decided.
        """
        lost = [path for path, change in diff_trees(self.folders, seen, theirs).items() if change.before is not None]
        if not lost or self.rewritten == FOLLOW:
            run_git(self.folders, "update-ref", f"refs/labbook/before-{int(time.time())}", local)
            return seen
        if self.rewritten == KEEP:
            return None
        run_git(self.folders, "update-ref", self.tracking, seen)  # the next sync asks again
        raise GitError(
            "sync.error.rewritten",
            remote=self.remote.name,
            address=self.remote.address,
            count=len(lost),
            first=text_path(min(lost)),
        )

    def _push(self, merged: str, theirs: str, local: str) -> bool:
        """Push; returns whether the remote has the commit.

        Raises:
            GitError: The remote refuses, or somebody was faster each time.
        """
        self.attempts += 1
        try:
            answer = self.remote.push(merged, self.ref)
        except GitError:
            if theirs:
                bring_to(self.notebook, self.folders, self.ref, merged, local)
            raise
        if answer.status == "ok":
            return True
        if answer.status == "retry" and self.attempts < _ATTEMPTS:
            time.sleep(random.uniform(0.02, 0.1) * 1.6 ** min(self.attempts, 8))
            return False
        if theirs:
            # What the others wrote is readable here, also for those who may not write there.
            bring_to(self.notebook, self.folders, self.ref, merged, local)
        if answer.status == "retry":
            raise GitError("sync.error.too_busy", remote=self.remote.name, count=self.attempts, reason=answer.text)
        raise self.remote.refusal(answer.text)

    def _result(self, start: str, first: str, tip: str, unsent: tuple[tuple[str, str], ...]) -> SyncResult:
        came = diff_trees(self.folders, start, tip) if tip != start else {}
        went = diff_trees(self.folders, first, tip) if tip != first else {}
        return SyncResult(
            self.remote.name,
            self.ref.removeprefix("refs/heads/"),
            tip,
            runs_among(path for path, change in came.items() if change.before is None),
            runs_among(path for path, change in went.items() if change.before is None),
            len(came),
            len(went),
            tuple(sorted(text_path(path) for path in self.conflicts)),
            unsent,
            *self._count_newer_and_parts(came),
            tuple(files_left(self.folders, came)),
        )

    def _count_newer_and_parts(self, came: Mapping[bytes, PathChange]) -> tuple[int, int]:
        """Return how many of the notes that came are from a newer labbook, and how many entries lack ranks."""
        notes = sorted(p for p, c in came.items() if p.endswith(b".md") and c.after is not None and c.after.is_file)
        blobs = read_blobs(self.folders, [came[p].after.blob for p in notes[-_LOOKED_AT:]])  # type: ignore[union-attr]
        found = [re.match(rb"---\r?\nschema: (\d{1,9})\r?\n", data) for data in blobs.values()]
        parts = sum(b"\nranks_missing: [" in data.partition(b"\n---")[0].replace(b"[]", b"") for data in blobs.values())
        return sum(1 for each in found if each and int(each[1]) > _SCHEMA), parts


def _utc_now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
