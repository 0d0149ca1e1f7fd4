from __future__ import annotations

import json
import subprocess
import sys

import pytest


def test_a_new_notebook_is_a_clean_repository(tmp_path, git):
    from labbook.cli import main

    assert main(["init", str(tmp_path / "book"), "--title", "Vision", "--language", "zh"]) == 0
    folder = tmp_path / "book"
    assert git(folder, "status", "--porcelain") == ""
    assert git(folder, "log", "--format=%s") == "Start the notebook Vision"
    files = git(folder, "ls-files").splitlines()
    assert files == [".gitignore", "labbook.toml", "mkdocs.yml", "notes/.gitkeep", "templates/.gitkeep"]
    text = (folder / "labbook.toml").read_text("utf-8")
    assert 'language = "zh"' in text and 'commit = "checkout"' in text


def test_output_names_new_and_existing_files(tmp_path, git, capsys, monkeypatch):
    from labbook.cli import main

    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "mkdocs.yml").write_text("site_name: mine\n")
    (tmp_path / ".gitignore").write_text("data/\n")
    monkeypatch.chdir(tmp_path)
    assert main(["init", "new one", "--template", "torch"]) == 0
    assert "next: cd 'new one' && pip install" in capsys.readouterr().out
    assert main(["init"]) == 0
    out = capsys.readouterr().out
    assert "next: labbook record" in out
    assert "created    labbook.toml" in out and "extended   .gitignore" in out
    assert "unchanged  mkdocs.yml" in out
    assert f"to the branch labbook of {tmp_path}" in out
    assert (tmp_path / "mkdocs.yml").read_text() == "site_name: mine\n"
    assert main(["init"]) == 0
    out = capsys.readouterr().out
    assert "created " not in out and "nothing to do" in out
    assert git(tmp_path, "for-each-ref") == ""


@pytest.mark.parametrize("folder", [".", "new one"])
def test_the_printed_commands_commit_the_new_files(tmp_path, git, capsys, monkeypatch, folder):
    from labbook.cli import main

    git(tmp_path, "init", "-q", "-b", "main")
    monkeypatch.chdir(tmp_path)
    assert main(["init", folder, "--template", "torch"]) == 0
    commands = [line.partition(": ")[2] for line in capsys.readouterr().out.splitlines() if line.startswith("commit ")]
    assert len(commands) == 2
    for line in commands:
        named = line.replace(" commit ", " -c user.name=Wei -c user.email=wei@example.com commit ")
        subprocess.run(["bash", "-c", named], check=True, cwd=tmp_path, capture_output=True)
    assert git(tmp_path, "status", "--porcelain") == ""
    assert len(git(tmp_path, "log", "--format=%s").splitlines()) == 2


def test_a_fresh_clone_gets_its_entries(project, tmp_path, git, capsys):
    from labbook.cli import main
    from labbook.store.commit.entry_commit import commit_files
    from labbook.store.notebook_finder import find_notebook

    notebook = find_notebook(project.folder, environ={})
    entry = notebook.paths.notes / "runs" / "a.md"
    entry.parent.mkdir(parents=True)
    entry.write_text("entry\n")
    commit_files(notebook, [entry], "entry")
    git(project.folder, "add", "labbook.toml")
    git(project.folder, "commit", "-qm", "notebook")
    git(tmp_path, "clone", "-q", str(project.folder), "clone")
    assert main(["init", str(tmp_path / "clone")]) == 0
    assert "restored 1 file from" in capsys.readouterr().out
    assert (tmp_path / "clone" / "notes" / "runs" / "a.md").read_text() == "entry\n"


def test_a_folder_that_cannot_be_written(tmp_path, capsys):
    from labbook.cli import main

    (tmp_path / "file").write_text("")
    assert main(["init", str(tmp_path / "file" / "book")]) == 3
    assert "cannot write the notebook" in capsys.readouterr().err


def test_new_prints_the_name_and_commits_the_page(book, git):
    done = book("new", "digits cnn")
    assert done.stdout == "exp001_digits-cnn_dynamic\n"
    assert git(book.folder, "log", "-1", "--format=%s") == "Start exp001_digits-cnn_dynamic"
    made = json.loads(book("new", "学习率", "--mode", "static", "--script", "train.py", "--json").stdout)
    assert made["experiment"] == "exp002_学习率_static"
    assert "script: train.py" in (book.folder / "notes" / "experiments" / "exp002_学习率_static.md").read_text("utf-8")
    refused = book("new", "!!!", check=False)
    assert refused.returncode == 2
    assert "no letter or digit" in refused.stderr


def test_runs_belong_to_the_experiment_that_was_started_here(book):
    slug = book("new", "no dropout", "--template", "ablation").stdout.strip()
    assert "## Reference" in (book.folder / "notes" / "experiments" / f"{slug}.md").read_text("utf-8")
    assert slug in book("record", "--", "true").stderr
    assert slug in book("new", "--done").stdout
    assert slug not in book("record", "--", "true").stderr
    assert "no experiment was started" in book("new", "--done", check=False).stderr
    assert book("new", "wider", "--template", "hypothesis").stdout.startswith("exp")
    assert "ablation, baseline, hypothesis" in book("new", "x", "--template", "y", check=False).stderr


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_project_never_replaces_a_file(tmp_path, git, capsys, language):
    from labbook.cli import main

    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text("mine\n")
    assert main(["init", str(folder), "--template", "torch", "--language", language]) == 0
    out = capsys.readouterr().out
    assert "train.py" in out and "config.yaml" in out and "pip install" in out
    assert (folder / "train.py").read_text() == "mine\n"
    assert "__pycache__/" in (folder / ".gitignore").read_text() and "/.labbook/" in (folder / ".gitignore").read_text()
    assert ("设置" in (folder / "README.md").read_text("utf-8")) == (language == "zh")
    (folder / "config.yaml").write_text("lr: 1\n")
    assert main(["init", str(folder), "--template", "torch"]) == 0
    assert (folder / "config.yaml").read_text() == "lr: 1\n"


@pytest.mark.parametrize(
    "framework",
    [
        pytest.param("torch", marks=[pytest.mark.torch, pytest.mark.long]),
        pytest.param("paddle", marks=[pytest.mark.paddle, pytest.mark.long]),
        "lightning",
    ],
)
def test_the_project_trains_and_passes_its_own_test(book, framework):
    from labbook.cli import main

    if framework == "lightning":
        pytest.importorskip("lightning")
    assert main(["init", str(book.folder), "--template", framework]) == 0
    done = book.record(sys.executable, "-m", "pytest", "-q", "-s", "-n", "0", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout
    run = book.run()
    assert run["status"] == "finished" and "val_acc" in run["metrics"]
