from __future__ import annotations

import os
import subprocess

import pytest
from order_of_tests import in_one_test

from labbook.errors import GitError
from labbook.store.commit.entry_commit import commit_files
from labbook.store.git.remotes import credential_free
from labbook.store.git.repository import CodeRepository
from labbook.store.notebook_finder import create_notebook


@pytest.fixture
def code(tmp_path, git):
    folder = tmp_path / "code"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "user.name", "Wei")
    git(folder, "config", "user.email", "wei@example.com")
    (folder / "train.py").write_text("lr = 0.1\n")
    (folder / "data.bin").write_bytes(b"\0\1\2")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    (folder / "model.py").write_text("layers = 2\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "zweiter · 第二")
    return folder


def test_history(code, git):
    repository = CodeRepository.open(code)
    first, second = git(code, "rev-parse", "HEAD~1", "HEAD").split()
    found = repository.commits_between(first, second)
    assert [(c.commit, c.author, c.subject) for c in found] == [(second, "Wei", "zweiter · 第二")]
    assert repository.commits_between(second, first) == []
    assert b"+layers = 2" in repository.diff_between(first, second)
    with pytest.raises(GitError):
        repository.commits_between("0" * 40, second)


def test_a_patch_has_text_files_only_and_a_limit(code, git, tmp_path):
    repository = CodeRepository.open(code)
    (code / "train.py").write_text("lr = 0.2\nBinary files a/x and b/x differ\ndiff --git a/x b/x\n")
    (code / "data.bin").write_bytes(b"\0\3")
    (code / "model.py").unlink()
    git(code, "commit", "-qam", "third")
    for key, value in (("diff.noprefix", "true"), ("color.ui", "always"), ("diff.mnemonicPrefix", "true")):
        git(code, "config", key, value)
    before, after = git(code, "rev-parse", "HEAD~1", "HEAD").split()
    patch = repository.diff_between(before, after)
    assert b"data.bin" not in patch
    git(tmp_path, "clone", "-q", str(code), "clone")
    git(tmp_path / "clone", "checkout", "-q", before)
    subprocess.run(["git", "apply", "-"], cwd=tmp_path / "clone", input=patch, check=True)
    assert (tmp_path / "clone" / "train.py").read_text() == (code / "train.py").read_text()
    assert not (tmp_path / "clone" / "model.py").exists()
    with pytest.raises(GitError, match="longer than 300 bytes"):
        repository.diff_between(before, after, 300)


@pytest.mark.parametrize("name", ["--output=/tmp/x", "main", "HEAD..main", "-p", "", "refs/heads/../x", "HEAD:x"])
def test_invalid_commit_names_are_rejected(code, name):
    with pytest.raises(GitError, match="is not a commit"):
        CodeRepository.open(code).diff_between(name, "HEAD")


@in_one_test(
    ("url", "shown"),
    [
        ("https://wei:ghp_secret@host.example/a/b.git", "https://host.example/a/b.git"),
        ("https://ghp_secret@host.example/a/b.git", "https://host.example/a/b.git"),
        ("https://host.example/a.git?access_token=ghp_secret#ghp_secret", "https://host.example/a.git"),
        ("https://wei:ghp_s/ec@ret@host.example:8443/a.git", "https://host.example:8443/a.git"),
        ("git@host.example:team/a.git", "ssh://host.example/team/a.git"),
        ("ssh://git:ghp_secret@host.example:22/a.git", "ssh://host.example:22/a.git"),
        ("ext::sh -c 'curl ghp_secret'", "ext::"),
        ("/srv/git/a.git", "/srv/git/a.git"),
    ],
)
def test_an_address_is_shown_without_credentials(url, shown):
    assert credential_free(url) == shown


def test_no_repository_and_no_git(tmp_path, monkeypatch):
    assert CodeRepository.open(tmp_path) is None
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    monkeypatch.setenv("PATH", "/nonexistent")
    assert CodeRepository.open(tmp_path) is None


def test_time_is_limited(code, tmp_path, monkeypatch):
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nsleep 60 & sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    with pytest.raises(GitError, match=r"took more than 0\.3 s"):
        CodeRepository.open(code, timeout_s=0.3).diff_between("HEAD", "HEAD")


CANARY = """#!/bin/sh
echo "$0 $@" >> {log}
cat
"""


def make_hostile(folder, git, canary):
    """A repository that names a program wherever its configuration can."""
    settings = {
        "core.fsmonitor": canary,
        "core.hooksPath": "hostile-hooks",
        "core.sshCommand": canary,
        "core.askPass": canary,
        "core.pager": canary,
        "core.editor": canary,
        "core.gitProxy": canary,
        "core.alternateRefsCommand": canary,
        "pager.status": canary,
        "pager.diff": canary,
        "pager.log": canary,
        "diff.external": canary,
        "diff.evil.textconv": canary,
        "diff.evil.command": canary,
        "diff.evil.cachetextconv": "true",
        "filter.evil.clean": canary,
        "filter.evil.smudge": canary,
        "filter.evil.required": "true",
        "filter.Long Name.process": canary,
        "credential.helper": canary,
        "gpg.program": canary,
        "gpg.ssh.program": canary,
        "log.showSignature": "true",
        "commit.gpgSign": "true",
        "interactive.diffFilter": canary,
        "alias.status": f"!{canary}",
        "alias.diff": f"!{canary}",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::{canary} %S",
        "remote.origin.uploadpack": canary,
        "protocol.allow": "always",
        "uploadpack.packObjectsHook": canary,
        "submodule.recurse": "true",
        "status.submoduleSummary": "true",
        "maintenance.auto": "true",
        "core.untrackedCache": "true",
        "core.splitIndex": "true",
    }
    config = folder / ".git" / "included"
    for key, value in settings.items():
        git(folder, "config", "--file", str(config), key, value)
    git(folder, "config", "include.path", "included")
    hooks = folder / "hostile-hooks"
    hooks.mkdir()
    for name in ("reference-transaction", "post-index-change", "pre-commit", "post-checkout", "fsmonitor-watchman"):
        (hooks / name).write_text(f"#!/bin/sh\nexec {canary} {name}\n")
        (hooks / name).chmod(0o755)
        (folder / ".git" / "hooks").mkdir(exist_ok=True)
        (folder / ".git" / "hooks" / name).write_text(f"#!/bin/sh\nexec {canary} {name}\n")
        (folder / ".git" / "hooks" / name).chmod(0o755)
    (folder / ".gitattributes").write_text('*.py filter=evil diff=evil\n*.bin filter="Long Name"\n')
    (folder / ".git" / "info").mkdir(exist_ok=True)
    (folder / ".git" / "info" / "attributes").write_text("*.txt filter=evil diff=evil\n")


@pytest.fixture
def hostile(code, git, tmp_path):
    log = tmp_path / "canary.log"
    canary = tmp_path / "canary"
    canary.write_text(CANARY.format(log=log))
    canary.chmod(0o755)
    make_hostile(code, git, str(canary))
    (code / "train.py").write_text("lr = 0.3\n")
    (code / "plain.rst").write_text("old\n")
    return code, log


def test_the_canary_is_alive(hostile):
    """Without our arguments git does run what this repository names, so that the next tests can fail."""
    folder, log = hostile
    subprocess.run(["git", "status"], cwd=folder, capture_output=True)
    subprocess.run(["git", "diff"], cwd=folder, capture_output=True)
    ran = log.read_text()
    assert "canary" in ran and "train.py" in ran


def test_hostile_configuration_never_runs_when_reading(hostile, git):
    folder, log = hostile
    first, second = git(folder, "rev-parse", "HEAD~1", "HEAD").split()
    log.unlink(missing_ok=True)
    repository = CodeRepository.open(folder)
    assert b"+layers = 2" in repository.diff_between(first, second)
    assert repository.commits_between(first, second)
    with pytest.raises(GitError):
        repository.diff_between("1" * 40, second)  # an absent object must not be fetched
    assert not log.exists(), log.read_text()


def test_hostile_configuration_never_runs_when_committing(hostile):
    folder, log = hostile
    log.unlink(missing_ok=True)
    for commit in ("branch", "checkout"):
        (folder / "labbook.toml").write_text(f'commit = "{commit}"\n')
        notebook, _ = create_notebook(folder)
        entry = notebook.paths.notes / "runs" / f"{commit}.py"
        entry.parent.mkdir(parents=True, exist_ok=True)
        entry.write_text("x\n")
        assert commit_files(notebook, [entry], "m").status == "committed"
    assert not log.exists(), log.read_text()


def test_signed_commits_are_not_verified(hostile, git):
    folder, log = hostile
    raw = git(folder, "cat-file", "commit", "HEAD")
    signed = raw.replace("\n\n", "\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n", 1)
    commit = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--stdin"],
        cwd=folder,
        input=signed + "\n",
        capture_output=True,
        text=True,
    ).stdout.strip()
    log.unlink(missing_ok=True)
    assert CodeRepository.open(folder).commits_between(git(folder, "rev-parse", "HEAD~1"), commit)
    assert not log.exists()


def test_filter_with_an_equals_sign_is_refused_by_name(code, tmp_path, git):
    log = tmp_path / "canary.log"
    with (code / ".git" / "config").open("a") as stream:
        stream.write(f'[filter "a=b"]\n\tclean = "echo x >> {log}; cat"\n')
    (code / ".gitattributes").write_text("*.py filter=a=b\n")
    (code / "train.py").write_text("lr = 0.4\n")
    with pytest.raises(GitError, match="a=b"):
        CodeRepository.open(code).diff_between("HEAD", "HEAD")
    assert not log.exists()
    subprocess.run(["git", "diff"], cwd=code, capture_output=True)
    assert log.exists(), "git itself runs it"


def test_variables_of_a_hook_point_nowhere_else(code, tmp_path, git, monkeypatch):
    first, second = git(code, "rev-parse", "HEAD~1", "HEAD").split()
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q", "-b", "elsewhere")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / "index"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "false")
    repository = CodeRepository.open(code)
    assert [each.commit for each in repository.commits_between(first, second)] == [second]
    assert b"+layers = 2" in repository.diff_between(first, second)
