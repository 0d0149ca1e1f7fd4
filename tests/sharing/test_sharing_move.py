"""`labbook move`: a run goes to another notebook whole, or not at all, and an interrupted move can be repeated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from sharing_clones import call_git, copy_clones, disk, make_template, write_entry, write_note

from labbook.cli import labbook
from labbook.errors import EntryError, LabbookError, NothingFoundError, UsageError
from labbook.sharing import move_run as module
from labbook.sharing.move_run import move_run
from labbook.store.commit.commit_queue import WITHHELD, enqueue
from labbook.store.notebook import Notebook

pytestmark = pytest.mark.process

RUN, FIXED = "20261122-035531-ab2c", "20261122-035600-ab2d"
EXPERIMENT = "exp003_digits_dynamic"


@pytest.fixture
def books(tmp_path: Path) -> tuple[Notebook, Notebook]:
    source, target = copy_clones(make_template(tmp_path / "template"), tmp_path / "clones", 2)
    write_note(source, f"experiments/{EXPERIMENT}.md", f"---\nschema: 1\nexperiment: {EXPERIMENT}\n---\n\nGoal.\n")
    entry = write_entry(source, RUN, "All is well.", experiment=EXPERIMENT)
    write_entry(source, FIXED, "Later.")
    figure = source.paths.attachments(RUN) / "loss.svg"
    figure.write_text("<svg/>")
    # Edited by a person after its commit, and not committed again.
    entry.write_text(entry.read_text().replace("fix: null", f"fix: fixed in {FIXED}") + "\nMy conclusion.\n")
    return source, target


def of_run(notebook: Notebook) -> dict[str, str]:
    return {name: text for name, text in disk(notebook).items() if RUN in name}


def on_branch(notebook: Notebook) -> list[str]:
    listed = call_git(notebook.paths.root, "ls-tree", "-r", "--name-only", "labbook", check=False)
    return [name for name in listed.splitlines() if RUN in name]


def test_a_run_moves_with_its_data_and_experiment_and_only_then_leaves(books: tuple[Notebook, Notebook]) -> None:
    source, target = books
    before = of_run(source)
    moved = move_run(source, "ab2c", target)
    assert of_run(target) == before
    assert "My conclusion." in disk(target)[f"runs/2026/11/22/{RUN}.md"]
    assert disk(target)[f"experiments/{EXPERIMENT}.md"] == disk(source)[f"experiments/{EXPERIMENT}.md"]
    assert len(on_branch(target)) == len(before) == moved.files == 3
    assert (moved.experiment, moved.other) == (EXPERIMENT, FIXED)
    assert not of_run(source) and not on_branch(source)
    assert any(FIXED in name for name in disk(source))
    assert call_git(source.paths.root, "status", "--porcelain") == ""
    with pytest.raises(UsageError, match="already"):
        move_run(source, RUN, target)
    failed = write_entry(source, "20261122-035500-ab2b", "Failed.")
    failed.write_text(failed.read_text().replace("fix: null", f"fix: {FIXED}"))
    assert move_run(source, FIXED, target).fixed == (failed.stem,)
    move_run(target, RUN, source)
    assert of_run(source) == before and not of_run(target)


class KilledError(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize("commits", [0, 1, 2])
@pytest.mark.parametrize("after", [False, True])
def test_a_killed_move_loses_nothing_and_the_same_call_finishes_it(
    books: tuple[Notebook, Notebook], monkeypatch: pytest.MonkeyPatch, commits: int, after: bool
) -> None:
    source, target = books
    before = of_run(source)
    done = []
    real = module.commit_files

    def killed(*arguments: object, **options: object) -> object:
        if len(done) == commits and not after:
            raise KilledError
        outcome = real(*arguments, **options)  # type: ignore[arg-type]
        if len(done) == commits:
            raise KilledError
        done.append(outcome)
        return outcome

    monkeypatch.setattr(module, "commit_files", killed)
    with pytest.raises(KilledError):
        move_run(source, RUN, target)
    monkeypatch.undo()
    assert of_run(source) == before or of_run(target) == before
    if (commits, after) == (2, True):
        with pytest.raises(UsageError, match="already"):
            move_run(source, RUN, target)
    else:
        move_run(source, RUN, target)
    assert of_run(target) == before and not of_run(source)
    assert len(on_branch(target)) == 3 and not on_branch(source)


def test_what_cannot_be_moved_is_refused_and_nothing_changes(books: tuple[Notebook, Notebook]) -> None:
    source, target = books
    before = disk(source), disk(target)

    def refused(pattern: str, kind: type[LabbookError] = EntryError) -> None:
        with pytest.raises(kind, match=pattern):
            move_run(source, RUN, target)
        assert of_run(source) == {name: text for name, text in before[0].items() if RUN in name}
        assert not of_run(target) or of_run(target) != of_run(source)

    with pytest.raises(NothingFoundError):
        move_run(source, "zzzz", target)
    with pytest.raises(UsageError, match="already"):
        move_run(source, RUN, source)
    journal = source.paths.journal(RUN).root
    journal.mkdir(parents=True)
    refused("still going on")
    journal.rmdir()
    name = source.paths.entry(RUN).relative_to(source.paths.root).as_posix()
    slip = enqueue(source.paths, (name,), "run\n", 1.0, "a secret", queue=WITHHELD)
    refused("withheld")
    slip.unlink()
    facts = source.paths.attachments(RUN) / "run.json"
    text = facts.read_text()
    kept = {"path": "best.pt", "name": "best.pt", "digest": "sha256:" + "a" * 64, "size_bytes": 3}
    facts.write_text(json.dumps({**json.loads(text), "artifacts": [kept]}))
    before[0][f"runs/2026/11/22/{RUN}/run.json"] = facts.read_text()
    refused("kept file")
    facts.write_text(text)
    before[0][f"runs/2026/11/22/{RUN}/run.json"] = text
    write_entry(target, RUN, "Another run with this id.")
    refused("different run")


def test_a_secret_stays_where_it_is(books: tuple[Notebook, Notebook]) -> None:
    source, target = books
    entry = source.paths.entry(RUN)
    entry.write_text(entry.read_text() + "\nexport AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzABCDEFGH\n")
    before = of_run(source)
    with pytest.raises(EntryError, match="secret"):
        move_run(source, RUN, target)
    assert of_run(source) == before and not of_run(target)


def test_the_command_says_what_it_did(books: tuple[Notebook, Notebook]) -> None:
    source, target = books
    arguments = ["move", "ab2c", "--to", str(target.paths.root), "--notebook", str(source.paths.root)]
    done = CliRunner().invoke(labbook, arguments)
    assert done.exit_code == 0, done.output
    assert f"moved {RUN} to {target.paths.root}" in done.output and EXPERIMENT in done.output
