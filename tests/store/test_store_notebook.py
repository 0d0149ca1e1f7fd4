from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from labbook.errors import NotebookError
from labbook.store.config import Config
from labbook.store.notebook import prepare_private, write_obstacle
from labbook.store.notebook_finder import create_notebook, find_notebook, personal_root


def test_walking_up_beats_the_variable_and_the_option_beats_both(tmp_path):
    for name in ("above", "named", "chosen"):
        (tmp_path / name / "deep" / "er").mkdir(parents=True)
        (tmp_path / name / "labbook.toml").write_text(f'title = "{name}"\n')
    environ = {"LABBOOK_NOTEBOOK": str(tmp_path / "named")}
    start = tmp_path / "above" / "deep" / "er"
    assert find_notebook(start, environ=environ).config.title == "above"
    assert find_notebook(tmp_path, environ=environ).config.title == "named"
    for chosen in (tmp_path / "chosen", tmp_path / "chosen" / "labbook.toml"):
        assert find_notebook(start, chosen=chosen, environ=environ).config.title == "chosen"


def test_project_file_counts_only_with_our_table(tmp_path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[tool.labbook]\ntitle = "outer"\n')
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'x'  # tool.labbook\n")
    (inner / "pyproject.toml").write_text("broken [tool.labbook]")
    assert find_notebook(inner, environ={}).config.title == "outer"


def test_the_personal_notebook_is_made_once(tmp_path, git):
    notebook = find_notebook(tmp_path, environ=os.environ)
    assert notebook.personal
    assert notebook.paths.root == personal_root() == Path(os.environ["XDG_DATA_HOME"]) / "labbook" / "notebook"
    assert notebook.config.commit == "checkout"
    assert git(notebook.paths.root, "status", "--porcelain") == ""
    assert find_notebook(tmp_path, environ=os.environ) == notebook
    assert find_notebook(tmp_path, chosen=notebook.paths.root, environ={}).personal
    assert [p.name for p in notebook.paths.root.parent.iterdir()] == ["notebook"]


def test_looking_does_not_make_the_personal_notebook(tmp_path):
    with pytest.raises(NotebookError, match="there is no notebook above"):
        find_notebook(tmp_path, environ={}, create_personal=False)
    assert not personal_root().exists()


def _root(folder):
    return str(find_notebook(Path(folder), environ=os.environ).paths.root)


def test_recorders_that_start_together_make_one_personal_notebook(tmp_path, git):
    with multiprocessing.get_context("spawn").Pool(6) as pool:
        roots = set(pool.map(_root, [str(tmp_path)] * 6))
    assert roots == {str(personal_root())}
    assert git(personal_root(), "rev-list", "--count", "HEAD") == "1"
    assert [p.name for p in personal_root().parent.iterdir()] == ["notebook"]


@pytest.mark.parametrize("chosen", ["missing", "empty"])
def test_a_chosen_folder_that_is_no_notebook(tmp_path, chosen):
    (tmp_path / "empty").mkdir()
    for arguments in (
        {"chosen": tmp_path / chosen, "environ": {}},
        {"environ": {"LABBOOK_NOTEBOOK": str(tmp_path / chosen)}},
    ):
        with pytest.raises(NotebookError) as caught:
            find_notebook(tmp_path, **arguments)
        assert str(tmp_path / chosen) in caught.value.message
        assert "labbook init" in caught.value.hint


def test_personal_notebook_that_cannot_be_made(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(blocked))
    with pytest.raises(NotebookError, match="cannot write the notebook"):
        find_notebook(tmp_path, environ=os.environ)


def test_without_git_the_notebook_is_a_folder_and_becomes_a_repository_later(tmp_path, monkeypatch, git):
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", "/nonexistent")
    notebook, _ = create_notebook(tmp_path / "own")
    assert notebook.repository is None
    assert notebook.config.commit == "checkout"
    monkeypatch.setenv("PATH", path)
    again, written = create_notebook(tmp_path / "own")
    assert written.files == ()
    assert again.repository == tmp_path / "own"


def test_in_a_code_repository_nothing_is_committed_and_nothing_overwritten(tmp_path, git):
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "mkdocs.yml").write_text("mine: 1\n")
    (tmp_path / ".gitignore").write_bytes(b"*.pyc\r\nbuild/")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "old.md").write_text("old\n")
    (tmp_path / "site").mkdir()
    notebook, written = create_notebook(tmp_path, config=Config(title="Team"))
    assert (notebook.config.commit, notebook.config.title) == ("branch", "Team")
    assert {p.relative_to(tmp_path).as_posix() for p in written.files} == {
        "labbook.toml",
        "templates/.gitkeep",
        ".gitignore",
    }
    assert (tmp_path / "mkdocs.yml").read_text() == "mine: 1\n"
    assert (tmp_path / ".gitignore").read_bytes() == b"*.pyc\r\nbuild/\r\n/.labbook/\r\n"
    assert git(tmp_path, "for-each-ref") == ""
    again, written = create_notebook(tmp_path, config=Config(title="Other"))
    assert written.files == ()
    assert again.config.title == "Team"


@pytest.mark.process
def test_settings_in_the_project_file_stay_there(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.labbook]\ntitle = "P"\ncommit = "off"\n')
    notebook, _ = create_notebook(tmp_path)
    assert notebook.config.title == "P"
    assert not (tmp_path / "labbook.toml").exists()


@pytest.mark.process
def test_site_settings_are_valid_whatever_the_title(tmp_path):
    import yaml

    title = 'Wei\'s: "book" # 实验 {{ language }}'
    create_notebook(tmp_path / "x", config=Config(site_name=title, language="zh"))
    with (tmp_path / "x" / "mkdocs.yml").open() as stream:
        loaded = yaml.load(stream, Loader=yaml.BaseLoader)
    assert loaded["theme"]["language"] == "zh"
    assert loaded["docs_dir"] == "notes"
    assert loaded["site_name"].startswith('Wei\'s: "book" # 实验')


def test_private_folder_ignores_itself(tmp_path, git):
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "labbook.toml").write_text("")
    notebook = find_notebook(tmp_path, environ={})
    prepare_private(notebook)
    (notebook.paths.private / "x").write_text("")
    assert git(tmp_path, "status", "--porcelain", "-uall") == "?? labbook.toml"
    assert notebook.paths.private.stat().st_mode & 0o777 == 0o700


def test_unwritable_notebook_is_an_error(tmp_path):
    (tmp_path / "labbook.toml").write_text("")
    notebook = find_notebook(tmp_path, environ={})
    assert write_obstacle(notebook) == ""
    (tmp_path / "notes").rmdir()
    (tmp_path / "notes").write_text("a file in the way")
    assert "cannot write the notebook" in write_obstacle(notebook)


@pytest.mark.process
@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_settings_of_other_users_in_a_public_folder_are_ignored(tmp_path):
    public = tmp_path / "public"
    (public / "mine").mkdir(parents=True)
    public.chmod(0o1777)
    (public / "labbook.toml").write_text('title = "planted"\n')
    assert find_notebook(public / "mine", environ={}).config.title == "planted", "our own"
    os.chown(public / "labbook.toml", 12345, 12345)
    assert find_notebook(public / "mine", environ=os.environ).personal


@pytest.mark.process
@pytest.mark.parametrize("name", ["", "runs", "experiments", "runs/2026"])
def test_entries_are_not_written_behind_a_link(tmp_path, monkeypatch, name):
    notebook, _ = create_notebook(tmp_path / "book")
    outside = tmp_path / "outside"
    outside.mkdir()
    link = notebook.paths.notes / name
    if not name:
        shutil.rmtree(link)
    if name == "runs/2026":
        link = notebook.paths.runs / time.strftime("%Y", time.gmtime())
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside)
    done = subprocess.run(
        [sys.executable, "-m", "labbook", "record", "--", "echo", "hi"],
        cwd=notebook.paths.root,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.returncode, done.stdout) == (0, "hi\n")
    assert "a link leads out of the notebook" in done.stderr and "personal notebook" in done.stderr
    assert list(outside.rglob("*")) == []
