"""Which project a command belongs to."""

from __future__ import annotations

import pytest

from labbook.capture.project import Project, find_project


@pytest.fixture
def place(tmp_path):
    def make(name, git=True, remote=""):
        folder = tmp_path / name
        (folder / ".git").mkdir(parents=True) if git else folder.mkdir(parents=True)
        (folder / "train.py").write_text("")
        if remote:
            (folder / ".git" / "config").write_text(f'[core]\n\tbare = false\n[remote "origin"]\n\turl = {remote}\n')
        return folder

    return make


def test_the_repository_or_folder_is_the_project(place, tmp_path):
    book = tmp_path / "book"
    nano, loose = place("a/nano"), place("b/loose", git=False)
    (nano / "tools").mkdir()
    argv = ("python", "train.py")

    assert find_project(argv, nano, book) == Project("nano", str(nano))
    assert find_project(("python", "../train.py"), nano / "tools", book).root == str(nano)
    assert find_project(argv, loose, book) == Project("loose", str(loose))
    assert find_project(("python", str(nano / "train.py")), loose, book).name == "nano"
    assert find_project(("torchrun", "--nproc", "2", "train.py"), nano, book).name == "nano"


def test_the_project_of_the_notebook_has_no_name(place):
    code = place("code")
    (code / "sub").mkdir()
    inner = place("code/other")

    assert find_project(("python", "train.py"), code, code) == Project()
    assert find_project(("python", "train.py"), code, code / "book") == Project()
    assert find_project(("ls",), code / "sub", code) == Project()
    assert find_project(("python", "train.py"), inner, code).name == "other"


@pytest.mark.parametrize(
    "url",
    [
        "https://user:pass@github.com/karpathy/nanoGPT.git",
        "git@github.com:karpathy/nanoGPT.git",
        "ssh://git@github.com:22/karpathy/nanoGPT",
        "https://github.com/karpathy/nanoGPT/",
    ],
)
def test_clones_of_one_remote_are_one_project(place, tmp_path, url):
    assert find_project(("python", "train.py"), place("x", remote=url), tmp_path / "book").root == (
        "github.com/karpathy/nanoGPT"
    )


def test_a_linked_worktree_is_of_its_repository(place, tmp_path):
    main, tree = place("main"), place("tree", git=False)
    (tree / ".git").write_text(f"gitdir: {main}/.git/worktrees/tree\n")

    assert find_project(("python", "train.py"), tree, tmp_path / "book").root == str(main)
