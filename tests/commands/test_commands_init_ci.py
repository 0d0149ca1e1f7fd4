"""`labbook init --ci`: the workflows fit the schemas of their services, and their very steps build the site."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

FILES = {
    "github": ".github/workflows/labbook-site.yml",
    "gitlab": ".gitlab/labbook.yml",
    "gitee": ".workflow/labbook-site.yml",
}
SCHEMAS = {"github": "vendor.github-workflows", "gitlab": "vendor.gitlab-ci"}


def steps_of(provider: str, text: str) -> list[str]:
    """The shell commands of a workflow, in order."""
    data = yaml.safe_load(text)
    if provider == "github":
        return [step["run"] for step in data["jobs"]["site"]["steps"] if "run" in step]
    if provider == "gitlab":
        return data["pages"]["script"]
    return [command for stage in data["stages"] for step in stage["steps"] for command in step["commands"]]


def run_steps(provider: str, text: str, folder: Path, **environ: str) -> str:
    """Runs the steps as the service does, with the labbook of this test as the installed one."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "LABBOOK": "labbook[site]", "PIP_NO_INDEX": "1", **environ}
    out = ""
    for step in steps_of(provider, text):
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", step], cwd=folder, env=env, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{step}\n{done.stdout}\n{done.stderr}"
        out += done.stdout
    return out


@pytest.fixture(scope="module")
def published(tmp_path_factory, make_project, git) -> Path:
    """A repository with a notebook in a subfolder with an awkward name, and one entry on a branch of another name."""
    top = make_project(tmp_path_factory.mktemp("published") / "code").folder
    root = top / "lab $x {{ github }}"
    root.mkdir()
    for name in ("labbook.toml", "mkdocs.yml"):
        shutil.move(top / name, root / name)
    settings = root / "labbook.toml"
    settings.write_text(settings.read_text().replace('branch = "labbook"', 'branch = "team/notes"'))
    from labbook.cli import main

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        for provider in FILES:
            assert main(["init", "--ci", provider]) == 0
    git(top, "add", "-A")
    git(top, "commit", "-qm", "notebook")
    entry = root / "notes" / "runs" / "2026" / "11" / "21" / "20261121-100000-aaaa.md"
    entry.parent.mkdir(parents=True)
    entry.write_text("---\nid: 20261121-100000-aaaa\ntitle: first run\nstatus: finished\n---\n\n# first run\n")
    from labbook.store.commit.entry_commit import commit_files
    from labbook.store.notebook_finder import find_notebook

    commit_files(find_notebook(root, environ={}), [entry], "entry")
    assert git(top, "rev-parse", "--verify", "team/notes")
    return top


@pytest.mark.parametrize("provider", SCHEMAS)
def test_the_workflow_fits_the_schema_of_its_service(published, provider):
    files = [FILES[provider]] + [".gitlab-ci.yml"] * (provider == "gitlab")
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", SCHEMAS[provider], *files],
        cwd=published, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("actionlint") is None, reason="actionlint is not installed")
def test_actionlint_has_no_complaint(published):
    done = subprocess.run(["actionlint", FILES["github"]], cwd=published, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_pipeline_of_gitee_has_the_documented_keys(published):
    """There is no public schema; the keys are those of the documentation of Gitee Go."""
    data = yaml.safe_load((published / FILES["gitee"]).read_text())
    assert {"version", "name", "displayName", "triggers", "stages"} == set(data)
    assert data["version"] == "1.0" and data["triggers"]["push"]["branches"]["precise"] == ["main"]
    (step,) = data["stages"][0]["steps"]
    assert step["step"] == "build@python" and all(isinstance(command, str) for command in step["commands"])
    assert step["artifacts"][0]["path"] and step["caches"]


@pytest.mark.parametrize(
    "provider", ["github", *(pytest.param(name, marks=pytest.mark.long) for name in ("gitlab", "gitee"))]
)
@pytest.mark.slow
@pytest.mark.long
def test_the_steps_of_the_workflow_build_the_site_of_a_clone(published, git, tmp_path, provider):
    text = (published / FILES[provider]).read_text()
    for name in ("first", "second"):
        # As the services check out: one branch, without history.
        clone = tmp_path / name
        url = published.as_uri()
        git(tmp_path, "clone", "-q", "--depth=1", "--single-branch", "--branch", "main", url, name)
        if name == "second":
            shutil.copytree(tmp_path / "first" / ".cache", clone / ".cache", copy_function=shutil.copyfile)
        out = run_steps(provider, text, clone)
        site = clone / ("public" if provider == "gitlab" else ".cache/labbook/site")
        assert "first run" in (site / "runs/2026/11/21/20261121-100000-aaaa.html").read_text()
        assert (site / "index.html").is_file()
        assert git(clone, "status", "--porcelain", "--", "lab*") == ""
        if name == "second":
            assert " 0 updated" in out


def test_nothing_is_overwritten_or_committed(project, git, capsys, monkeypatch):
    from labbook.cli import main

    monkeypatch.chdir(project.folder)
    before = git(project.folder, "rev-parse", "HEAD")
    (project.folder / ".gitlab-ci.yml").write_text("stages: [mine]\n")
    assert main(["init", "--ci", "gitlab"]) == 0
    out = capsys.readouterr().out
    assert "created    .gitlab/labbook.yml" in out and "  - local: .gitlab/labbook.yml" in out
    assert "git add .gitlab/labbook.yml" in out and "Pipeline schedules" in out
    assert main(["init", "--ci", "gitlab"]) == 0 and "unchanged  .gitlab/labbook.yml" in capsys.readouterr().out

    job = project.folder / FILES["gitlab"]
    job.write_text("mine\n")
    assert main(["init", "--ci", "gitlab"]) == 2
    assert "--force" in capsys.readouterr().err and job.read_text() == "mine\n"
    assert main(["init", "--ci", "gitlab", "--force"]) == 0 and "labbook site build" in job.read_text()
    assert (project.folder / ".gitlab-ci.yml").read_text() == "stages: [mine]\n"
    assert (
        git(project.folder, "rev-parse", "HEAD") == before
        and git(project.folder, "diff", "--cached", "--name-only") == ""
    )


def test_a_notebook_that_commits_nothing_has_nothing_to_publish(project, capsys, monkeypatch):
    from labbook.cli import main

    monkeypatch.chdir(project.folder)
    monkeypatch.setenv("LABBOOK_COMMIT", "off")
    assert main(["init", "--ci", "github"]) == 2
    assert "not committed" in capsys.readouterr().err
    assert not (project.folder / ".github").exists()
