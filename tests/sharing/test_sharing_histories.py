"""Random histories of several clones end in one tree with every entry and every sentence."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from sharing_clones import (
    add_work_trees,
    assert_code_untouched,
    call_git,
    copy_clones,
    disk,
    make_template,
    sync,
    tip,
    write_entry,
    write_note,
)

from labbook.errors import GitError
from labbook.sharing import disk_update, remote_git, synchronize, tree_diff, tree_merge
from labbook.sharing.follow_remote import follow_remote
from labbook.store.commit.branch_checkout import restore_before_writing
from labbook.store.commit.entry_commit import commit_files
from labbook.store.notebook import Notebook
from labbook.store.text import frontmatter

pytestmark = pytest.mark.process


class KilledError(BaseException):
    """What ends a sync in the middle."""


class Killer:
    """Stops a sync behind its n-th call of git; chance decides whether a fetch or push that runs then still ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, chance: random.Random) -> None:
        self.left: int | None = None
        stop = remote_git.Remote.stop

        def end_or_stop(remote, call):
            if chance.random() < 0.5:
                call.process.wait()
            stop(remote, call)

        monkeypatch.setattr(remote_git.Remote, "stop", end_or_stop)
        for module in (disk_update, synchronize, tree_diff, tree_merge, remote_git):
            if hasattr(module, "run_git"):
                monkeypatch.setattr(module, "run_git", self._counted(module.run_git))
        monkeypatch.setattr(remote_git.Remote, "_finish", self._counted(remote_git.Remote._finish))
        monkeypatch.setattr(disk_update, "write_atomically", self._counted(disk_update.write_atomically))
        # A rest would only make the test longer.
        monkeypatch.setattr(synchronize.time, "sleep", lambda _: None)

    def _counted(self, function):
        def call(*arguments, **options):
            answer = function(*arguments, **options)
            if self.left is not None:
                self.left -= 1
                if self.left < 0:
                    self.left = None
                    raise KilledError
            return answer

        return call


def places_of_people(lines: list[str]) -> list[int]:
    """The lines of a note behind which people write: not in a generated block."""
    starts = ("## ", "sentence", "<!-- yours")
    return [at for at, line in enumerate(lines) if line.startswith(starts) and "labbook:begin" not in lines[at - 2]]


class History:
    """Some clones, what people did in them, and the sentences that have to be there at the end."""

    def __init__(self, books: list[Notebook], chance: random.Random, killer: Killer) -> None:
        self.books, self.chance, self.killer = books, chance, killer
        self.sentences: set[str] = set()
        self.entries: set[str] = set()
        self.count = self.runs = 0

    def sentence(self) -> str:
        self.count += 1
        text = f"sentence {self.count:04d} of {self.chance.randrange(10**6):06d}."
        self.sentences.add(text)
        return text

    def step(self) -> None:
        book = self.chance.choice(self.books)
        follow_remote(book)  # as every command does
        actions = [self.record, self.edit, self.edit, self.replace, self.tag, self.page, self.rename, self.delete]
        self.chance.choice([*actions, self.share, self.share, self.killed, self.killed])(book)

    def record(self, book: Notebook) -> None:
        self.runs += 1
        number = self.runs
        run_id = f"202611{10 + number % 3}-0101{number % 60:02d}-{number:04d}"
        self.entries.add(run_id)
        write_entry(book, run_id, self.sentence(), host=f"host{number}")

    def page(self, book: Notebook) -> None:
        """Two people start an experiment of the same name."""
        slug = f"exp00{self.chance.randint(1, 2)}_train_dynamic"
        path = book.paths.experiments / f"{slug}.md"
        restore_before_writing(book, book.paths.experiments)  # as `new_experiment` does
        if not path.exists():
            head = frontmatter.emit({"schema": 1, "experiment": slug, "created": f"2026-11-{self.count % 28 + 1:02d}"})
            write_note(
                book, f"experiments/{slug}.md", f"{head}\n# train\n\n## Goal\n\n<!-- Goal? -->\n\n{self.sentence()}\n"
            )
            commit_files(book, [path], f"Start {slug}\n", only_new=True)

    def notes(self, book: Notebook) -> list[Path]:
        return sorted(book.paths.notes.rglob("*.md"))

    def edit(self, book: Notebook) -> None:
        """Write a sentence at some place of the text of people."""
        notes = self.notes(book)
        if not notes:
            return
        note = self.chance.choice(notes)
        lines = note.read_text().split("\n")
        places = places_of_people(lines)
        at = self.chance.choice(places) + 1 if places else len(lines)
        note.write_text("\n".join([*lines[:at], self.sentence(), *lines[at:]]))
        self.maybe_commit(book, note)

    def replace(self, book: Notebook) -> None:
        """Change a sentence: who does so has read it."""
        for note in self.chance.sample(self.notes(book), min(3, len(self.notes(book)))):
            lines = note.read_text().split("\n")
            places = [
                at for at, line in enumerate(lines) if line.startswith("sentence") and "health" not in lines[at - 2]
            ]
            if places:
                at = self.chance.choice(places)
                self.sentences.discard(lines[at])
                lines[at] = self.sentence()
                note.write_text("\n".join(lines))
                self.maybe_commit(book, note)
                return

    def tag(self, book: Notebook) -> None:
        for note in self.chance.sample(self.notes(book), min(3, len(self.notes(book)))):
            meta = frontmatter.parse(note.read_text(), "")[0]
            if meta:
                changed = {"tags": [*(meta.get("tags") or []), self.sentence()], "fix": f"fix {self.count % 3}"}
                note.write_text(frontmatter.update(note.read_text(), changed))
                self.maybe_commit(book, note)
                return

    def rename(self, book: Notebook) -> None:
        pages = [note for note in self.notes(book) if note.parent.name == "experiments"]
        if pages:
            page = self.chance.choice(pages)
            new = page.with_name(f"exp{self.chance.randint(3, 999):03d}_renamed_dynamic.md")
            if not new.exists():
                page.rename(new)
                commit_files(book, [page, new], "rename\n")

    def delete(self, book: Notebook) -> None:
        notes = [note for note in self.notes(book) if "runs" in note.parts]
        if notes and self.chance.random() < 0.4:
            note = self.chance.choice(notes)
            text = note.read_text()
            self.sentences -= {sentence for sentence in self.sentences if sentence in text}
            self.entries.discard(note.stem)
            for file in note.with_suffix("").glob("*"):
                file.unlink()
            note.unlink()
            commit_files(book, [note, note.with_suffix("") / "run.json"], "delete\n")

    def maybe_commit(self, book: Notebook, note: Path) -> None:
        if self.chance.random() < 0.5:
            commit_files(book, [note], "edit\n")

    def share(self, book: Notebook) -> None:
        try:
            sync(book)
        except GitError as error:
            assert "has an entry yet" in error.message  # nobody has shared one before

    def killed(self, book: Notebook) -> None:
        self.killer.left = self.chance.randrange(30)
        try:
            sync(book)
        except (KilledError, GitError):
            pass
        finally:
            self.killer.left = None

    def settle(self) -> None:
        for _ in range(2):
            for book in self.books:
                follow_remote(book)
                sync(book)
        assert len({tip(book) for book in self.books}) == 1, "the clones differ"
        texts = [disk(book) for book in self.books]
        everything = "\n".join(texts[0].values())
        lost = sorted(sentence for sentence in self.sentences if sentence not in everything)
        assert not lost, f"lost: {lost}"
        entries = {Path(name).stem for name in texts[0] if name.startswith("runs/") and name.endswith(".md")}
        assert self.entries <= entries, self.entries - entries
        assert all(f"{name}/run.json" in "\n".join(texts[0]) for name in self.entries)
        differ = [name for text in texts for name in {*text, *texts[0]} if text.get(name) != texts[0].get(name)]
        assert not differ, f"files on disk differ: {differ}"
        listed = call_git(self.books[0].paths.root, "ls-tree", "-r", "--name-only", "labbook", "notes/")
        assert set(listed.splitlines()) == {f"notes/{name}" for name in texts[0]}
        for book in self.books:
            assert_code_untouched(book)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return make_template(tmp_path_factory.mktemp("sharing") / "template")


def live_through(template: Path, folder: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    with monkeypatch.context() as patches:
        books = copy_clones(template, folder, chance.randint(2, 5))
        books += add_work_trees(books[0], seed % 3)
        history = History(books, chance, Killer(patches, random.Random(-1 - seed)))
        history.record(history.books[0])
        for _ in range(chance.randint(5, 40)):
            history.step()
        history.settle()


FEW = range(int(os.environ.get("LABBOOK_HISTORIES_FROM", "0")), int(os.environ.get("LABBOOK_HISTORIES_FROM", "0")) + 3)
MANY = range(1000, 1200)


@pytest.mark.parametrize("seed", [*FEW, *(pytest.param(seed, marks=pytest.mark.long) for seed in MANY)])
def test_histories_converge_without_loss(template, tmp_path, monkeypatch, seed):
    live_through(template, tmp_path / "history", seed, monkeypatch)
