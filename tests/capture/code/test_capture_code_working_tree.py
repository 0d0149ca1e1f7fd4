"""The state of the code, in real repositories."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from order_of_tests import in_one_test

from labbook.capture.code.git_reader import open_repository
from labbook.capture.code.untracked_files import is_source
from labbook.capture.code.working_tree import _list_untracked, capture
from labbook.capture.sources import capture_before


def same_files(one: Path, other: Path, paths) -> None:
    for path in paths:
        assert (one / path).exists() == (other / path).exists(), path
        if (one / path).exists():
            assert (one / path).read_bytes() == (other / path).read_bytes(), path
            assert os.access(one / path, os.X_OK) == os.access(other / path, os.X_OK), path


def test_clean_repository_has_no_patch(code, make_context, git_in):
    git_in(code, "remote", "add", "origin", "https://wei:s3cretToken@git.example.com/team/digits.git?x=1")
    facts = capture(make_context(code, "python", "train.py"))
    assert facts["commit"] == git_in(code, "rev-parse", "HEAD")
    assert (facts["branch"], facts["detached"], facts["dirty"], facts["patch"]) == ("main", False, False, "")
    assert facts["remote"] == "https://git.example.com/team/digits.git"
    assert facts["patch_complete"] is True


def test_ignored_files_are_not_taken(code, make_context, git_in):
    (code / ".gitignore").write_text("out/\n*.log\n")
    git_in(code, "add", ".")
    git_in(code, "commit", "-qm", "ignore")
    (code / "out").mkdir()
    (code / "out" / "gen.py").write_text("x")
    (code / "lib").mkdir()
    (code / "lib" / "a.py").write_text("x")
    (code / "lib" / "b.log").write_text("x")
    facts = capture(make_context(code, "python", "train.py"))
    assert facts["untracked"] == ["lib/a.py"]
    assert facts["untracked_other_count"] == 0


def test_files_of_labbook_are_no_change(code, make_context):
    (code / "labbook.toml").write_text("title = 'x'\n")
    (code / ".gitignore").write_text("/.labbook/\n")  # as `labbook init` writes it
    (code / "notes" / "runs").mkdir(parents=True)
    (code / "notes" / "runs" / "a.md").write_text("entry")
    facts = capture(make_context(code, "python", "train.py", root=code))
    assert facts["dirty"] is False
    assert facts["untracked"] == []


def test_unborn_branch(tmp_path, make_context, git_in):
    code = tmp_path / "fresh"
    code.mkdir()
    git_in(code, "init", "-q")
    (code / "train.py").write_text("x = 1\n")
    (code / "staged.py").write_text("y = 1\n")
    git_in(code, "add", "staged.py")
    context = make_context(code, "python", "train.py")
    facts = capture(context)
    assert (facts["commit"], facts["unborn"], facts["branch"], facts["dirty"]) == ("", True, "main", True)
    clone = tmp_path / "clone"
    clone.mkdir()
    git_in(clone, "init", "-q")
    git_in(clone, "apply", str(context.attachments / facts["patch"]))
    same_files(code, clone, ["train.py", "staged.py"])


def test_sha256_repository(tmp_path, make_context, git_in):
    code = tmp_path / "long"
    code.mkdir()
    git_in(code, "init", "-q", "--object-format=sha256")
    (code / "train.py").write_text("x = 1\n")
    git_in(code, "add", ".")
    git_in(code, "commit", "-qm", "first")
    (code / "new.py").write_text("y = 1\n")
    facts = capture(make_context(code, "python", "train.py"))
    assert len(facts["commit"]) == 64
    assert facts["blobs"]["new.py"] == git_in(code, "hash-object", "new.py")


def test_detached_head_and_operations(code, make_context, git_in):
    git_in(code, "checkout", "-q", "-b", "other")
    (code / "train.py").write_text("other\n")
    git_in(code, "commit", "-qam", "other")
    git_in(code, "checkout", "-q", "main")
    (code / "train.py").write_text("main\n")
    git_in(code, "commit", "-qam", "main")
    git_in(code, "merge", "other", check=False)
    context = make_context(code, "python", "train.py")
    facts = capture(context)
    assert facts["state"] == "merge"
    assert facts["dirty"] is True
    assert [f["path"] for f in facts["files_changed"]] == ["train.py"]
    git_in(code, "merge", "--abort")
    git_in(code, "checkout", "-q", "--detach")
    facts = capture(context)
    assert (facts["branch"], facts["detached"], facts["state"]) == ("", True, "")


def test_conflicts_and_other_changes_have_separate_sections(code, make_context, git_in):
    (code / "a.py").write_text("1\n")
    (code / "z.py").write_text("1\n")
    git_in(code, "add", ".")
    git_in(code, "commit", "-qm", "two")
    git_in(code, "checkout", "-q", "-b", "other")
    (code / "train.py").write_text("other\n")
    git_in(code, "commit", "-qam", "other")
    git_in(code, "checkout", "-q", "main")
    (code / "train.py").write_text("main\n")
    git_in(code, "commit", "-qam", "main")
    git_in(code, "merge", "other", check=False)
    (code / "a.py").write_text("2\n")
    (code / "z.py").write_text("3\n")
    context = make_context(code, "python", "train.py")
    facts = capture(context)
    assert {f["path"] for f in facts["files_changed"]} == {"a.py", "train.py", "z.py"}
    assert facts["blobs"]["z.py"] == git_in(code, "hash-object", "z.py")
    assert facts["blobs"]["a.py"] == git_in(code, "hash-object", "a.py")


def test_upstream_and_commits_that_are_not_pushed(code, make_context, git_in, tmp_path):
    origin = tmp_path / "origin.git"
    git_in(tmp_path, "init", "-q", "--bare", str(origin))
    git_in(code, "remote", "add", "origin", str(origin))
    git_in(code, "push", "-q", "-u", "origin", "main")
    (code / "train.py").write_text("x\n")
    git_in(code, "commit", "-qam", "local")
    facts = capture(make_context(code, "python", "train.py"))
    assert (facts["upstream"], facts["ahead"], facts["behind"]) == ("origin/main", 1, 0)


def test_the_repository_of_the_script_is_taken_not_that_of_the_folder(code, make_context, git_in, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    git_in(elsewhere, "init", "-q")
    facts = capture(make_context(elsewhere, "python", str(code / "train.py")))
    assert facts["top"] == str(code)


def test_nothing_that_a_repository_configures_is_run(code, make_context, git_in, tmp_path):
    witness = tmp_path / "witness"
    evil = tmp_path / "evil.sh"
    evil.write_text(f"#!/bin/sh\necho ran >> {witness}\ncat\n")
    evil.chmod(0o755)
    (code / ".gitattributes").write_text("*.py filter=evil diff=evil\n")
    git_in(code, "add", ".")
    git_in(code, "commit", "-qm", "attributes")
    for name in ("core.fsmonitor", "filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "diff.external"):
        git_in(code, "config", name, str(evil))
    for name in ("diff.evil.textconv", "diff.evil.command", "core.pager", "core.sshCommand", "core.hooksPath"):
        git_in(code, "config", name, str(evil))
    git_in(code, "config", "filter.evil.required", "true")
    (code / "train.py").write_text("changed\n")
    (code / "new.py").write_text("new\n")
    facts = capture(make_context(code, "python", "train.py"))
    assert not witness.exists()
    assert facts["dirty"] is True
    assert "train.py (rewritten by a git filter)" in facts["binaries"]


def test_git_variables_of_a_hook_do_not_redirect(code, make_context, git_in, monkeypatch, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    git_in(other, "init", "-q")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / "index"))
    facts = capture(make_context(code, "python", "train.py"))
    assert facts["top"] == str(code)
    assert facts["branch"] == "main"
    assert len(facts["commit"]) == 40


def test_linked_work_tree(code, make_context, git_in, tmp_path):
    git_in(code, "worktree", "add", "-q", "-b", "wt", str(tmp_path / "wt"))
    facts = capture(make_context(tmp_path / "wt", "python", "train.py"))
    assert (facts["branch"], facts["top"], facts["dirty"]) == ("wt", str(tmp_path / "wt"), False)


def test_without_a_repository_the_script_and_its_modules_are_stored(tmp_path, make_context, git_in):
    folder = tmp_path / "plain"
    (folder / "net").mkdir(parents=True)
    (folder / "train.py").write_text("import os\nimport model\nfrom net.blocks import Block\n")
    (folder / "model.py").write_text("from tools import x\n")
    (folder / "tools.py").write_text("x = 1\n")
    (folder / "unused.py").write_text("x = 1\n")
    (folder / "net" / "__init__.py").write_text("")
    (folder / "net" / "blocks.py").write_text("from . import act\nclass Block: ...\n")
    (folder / "net" / "act.py").write_text("relu = max\n")
    context = make_context(folder, "python", "train.py")
    facts = capture(context)
    assert facts["repository"] is False
    assert facts["dirty"] is True
    wanted = ["train.py", "model.py", "net/__init__.py", "net/blocks.py", "net/act.py", "tools.py"]
    assert sorted(facts["untracked"]) == sorted(wanted)
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    git_in(fresh, "init", "-q")
    git_in(fresh, "apply", str(context.attachments / facts["patch"]))
    same_files(folder, fresh, wanted)


def test_without_a_repository_a_shell_script_and_its_programs_are_stored(tmp_path, make_context):
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "run.sh").write_text("python prepare.py && python train.py --lr 1\n")
    (folder / "prepare.py").write_text("1\n")
    (folder / "train.py").write_text("2\n")
    facts = capture(make_context(folder, "bash", "run.sh"))
    assert facts["untracked"] == ["run.sh", "prepare.py", "train.py"]


def test_no_repository_and_no_script_declines(tmp_path, make_context):
    facts = capture_before(make_context(tmp_path, "python", "-c", "print(1)"))
    assert "no script" in facts["code"]["unavailable"]
    assert facts["command"]["script"] == "python -c"


def test_without_git_the_commit_is_still_recorded(code, make_context, git_in, monkeypatch):
    commit = git_in(code, "rev-parse", "HEAD")
    git_in(code, "pack-refs", "--all")
    monkeypatch.setenv("PATH", "/nonexistent")
    facts = capture(make_context(code, "python", "train.py"))
    assert (facts["commit"], facts["branch"], facts["dirty"]) == (commit, "main", None)
    assert "not known" in facts["patch_note"]


def test_thousands_of_new_data_files_do_not_enter(code, make_context):
    data = code / "data"
    data.mkdir()
    for number in range(3000):
        (data / f"{number}.npy").touch()
    facts = capture(make_context(code, "python", "train.py"))
    assert facts["untracked"] == []
    assert facts["untracked_other_count"] == 3000
    assert len(facts["untracked_other"]) == 20


def test_listing_new_files_takes_time_linear_in_their_number(code):
    class Name(str):
        __slots__ = ()
        hashed = 0

        def __hash__(self):
            Name.hashed += 1
            return super().__hash__()

    names = [Name(f"{number}.{'json' if number % 2 else 'npy'}") for number in range(600)]
    sources, others = _list_untracked(open_repository(code), names, ())
    assert (len(sources), len(others)) == (300, 300)
    assert Name.hashed < 10 * len(names)


def test_submodule_is_named_and_not_entered(code, make_context, git_in, tmp_path):
    library = tmp_path / "library"
    library.mkdir()
    git_in(library, "init", "-q")
    (library / "a.py").write_text("1\n")
    git_in(library, "add", ".")
    git_in(library, "commit", "-qm", "a")
    subprocess.run(
        ["git", "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "lib"], cwd=code, check=True
    )
    git_in(code, "commit", "-qm", "submodule")
    (code / "lib" / "a.py").write_text("2\n")
    facts = capture(make_context(code, "python", "train.py"))
    assert facts["dirty"] is False
    git_in(code / "lib", "commit", "-qam", "b")
    facts = capture(make_context(code, "python", "train.py"))
    assert facts["submodules"] == ["lib"]
    assert facts["dirty"] is True


@in_one_test(
    ("name", "source"),
    [("a.py", True), ("conf.yaml", True), ("requirements-dev.txt", True), ("Makefile", True), ("Dockerfile.gpu", True),
     ("log.txt", False), ("weights.pt", False), ("script.ts", False), ("data.csv", False), ("README.md", True)],
)  # fmt: skip
def test_new_source_files(name, source):
    assert is_source(f"some/{name}") is source
