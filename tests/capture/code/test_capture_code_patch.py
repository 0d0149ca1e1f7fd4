"""Patches of real repositories; every one is applied by git itself."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from labbook.capture.code.working_tree import capture

KEY = "-----BEGIN RSA PRIVATE KEY-----\n" + "\n".join("MIIEpAIBAAKCAQEA7Zq3Vb" + "Ab3d" * 10 for _ in range(6))
KEY += "\n-----END RSA PRIVATE KEY-----\n"


def applied(code: Path, context, facts, git_in, tmp_path) -> Path:
    """A fresh clone at the recorded commit with the recorded patch applied."""
    clone = tmp_path / "clone"
    git_in(tmp_path, "clone", "-q", str(code), str(clone))
    git_in(clone, "checkout", "-q", facts["commit"])
    patch = context.attachments / facts["patch"]
    git_in(clone, "apply", "--check", str(patch))
    git_in(clone, "apply", str(patch))
    return clone


def same_files(one: Path, other: Path, paths) -> None:
    for path in paths:
        assert (one / path).exists() == (other / path).exists(), path
        if (one / path).exists():
            assert (one / path).read_bytes() == (other / path).read_bytes(), path
            assert os.access(one / path, os.X_OK) == os.access(other / path, os.X_OK), path


def test_patch_holds_changes_and_new_source_files_and_applies(code, make_context, git_in, tmp_path):
    (code / "util.py").write_text("a = 1\nb = 2\nc = 3\nd = 4\n")
    (code / "gone.py").write_text("old\n")
    (code / "naïve 名.py").write_text("x\n")
    (code / "mode.sh").write_text("echo\n")
    git_in(code, "add", ".")
    git_in(code, "commit", "-qm", "more")
    (code / "train.py").write_text("import sys\n\nlr = 3.0\nsteps = 10\nprint(lr)\n")
    git_in(code, "mv", "util.py", "renamed.py")
    (code / "renamed.py").write_text("a = 1\nb = 2\nc = 3\nd = 4\ne = 5\n")
    (code / "gone.py").unlink()
    (code / "naïve 名.py").write_text("x\ny")
    (code / "mode.sh").chmod(0o755)
    new = code / "pkg" / "deep"
    new.mkdir(parents=True)
    (new / "model one.py").write_text("class A:\n    pass\n")
    (new / "empty.py").write_text("")
    (new / "windows.py").write_bytes(b"a = 1\r\nb = 2\r\n")
    (new / "latin.py").write_bytes(b"# caf\xe9\n")
    (new / 'odd"\tname\n.py').write_text("z = 1")
    (new / "run.sh").write_text("echo hi\n")
    (new / "run.sh").chmod(0o755)
    (new / "settings.yaml").write_text("lr: 3.0\n")
    (new / "weights.bin").write_bytes(b"\0" * 100)
    context = make_context(code, "python", "train.py")
    facts = capture(context)
    assert facts["dirty"] is True
    assert facts["patch_complete"] is True, facts["patch_note"]
    by_path = {f["path"]: f for f in facts["files_changed"]}
    assert by_path["renamed.py"]["from"] == "util.py"
    assert (by_path["train.py"]["added"], by_path["train.py"]["removed"]) == (1, 1)
    assert by_path["gone.py"]["status"] == "D"
    assert "pkg/deep/model one.py" in facts["untracked"]
    assert facts["untracked_other"] == ["pkg/deep/weights.bin"]
    clone = applied(code, context, facts, git_in, tmp_path)
    same_files(code, clone, [*by_path, "util.py", *facts["untracked"]])
    for path, blob in facts["blobs"].items():
        if blob:
            assert git_in(code, "hash-object", "--no-filters", path) == blob, path


def test_staged_and_unstaged_changes_are_both_in(code, make_context, git_in, tmp_path):
    (code / "train.py").write_text("staged\n")
    git_in(code, "add", "train.py")
    (code / "train.py").write_text("staged\nand more\n")
    (code / "added.py").write_text("new\n")
    git_in(code, "add", "-N", "added.py")
    before = git_in(code, "status", "--porcelain")
    context = make_context(code, "python", "train.py")
    facts = capture(context)
    clone = applied(code, context, facts, git_in, tmp_path)
    same_files(code, clone, ["train.py", "added.py"])
    assert git_in(code, "status", "--porcelain") == before


def test_binary_files_are_named_not_included(code, make_context, git_in):
    (code / "image.png").write_bytes(b"\x89PNG\0" + bytes(range(256)))
    git_in(code, "add", ".")
    git_in(code, "commit", "-qm", "image")
    (code / "image.png").write_bytes(b"\x89PNG\0" + bytes(range(255, -1, -1)))
    (code / "table.json").write_bytes(b"a\0b")
    context = make_context(code, "python", "train.py")
    facts = capture(context)
    assert facts["binaries"] == ["image.png", "table.json"]
    assert (facts["patch"], facts["patch_complete"]) == ("", False)
    assert "image.png" in facts["patch_note"]


@pytest.mark.parametrize(
    "name",
    [
        ".env", ".env.local", "deploy/server.pem", "config/credentials.json", "id_rsa", ".netrc",
        "kernel-0b6c1f0e-5a77-4c3e-9d53-6d0f6f0e1a2b.json", "run/jpserver-71.json", "ipcontroller-client.json",
    ],
)  # fmt: skip
def test_key_and_credential_files_are_withheld(code, make_context, git_in, name):
    file = code / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("PASSWORD=first-value-here\n")
    git_in(code, "add", "-f", ".")
    git_in(code, "commit", "-qm", "keys")
    file.write_text("PASSWORD=hunter2-is-not-kept\n")
    (code / "train.py").write_text("lr = 1\n")
    context = make_context(code, "python", "train.py")
    facts = capture(context)
    assert facts["withheld"] == [name]
    assert name not in facts["blobs"], "a hash would let a guess be confirmed"
    text = (context.attachments / facts["patch"]).read_text()
    assert "hunter2" not in text
    assert "first-value" not in text
    assert name in facts["patch_note"]


def test_untracked_secret_file_is_named_as_withheld(code, make_context):
    (code / ".env").write_text("API_KEY=abcdefgh12345678\n")
    facts = capture(make_context(code, "python", "train.py"))
    assert facts["withheld"] == [".env"]
    assert facts["patch"] == ""


def test_a_masked_added_line_still_applies(code, make_context, git_in, tmp_path):
    with (code / "train.py").open("a") as stream:
        stream.write('password = "correct-horse-battery"\nx = 1\n')
    (code / "new.py").write_text(f'KEY = """{KEY}"""\nafter = 1\n')
    context = make_context(code, "python", "train.py")
    facts = capture(context)
    text = (context.attachments / facts["patch"]).read_text()
    assert "correct-horse" not in text
    assert "MIIEpAIBAAKCAQEA7Zq3Vb" not in text
    assert "[REDACTED:" in text
    assert "masked in train.py, new.py" in facts["patch_note"]
    assert facts["patch_complete"] is False
    clone = applied(code, context, facts, git_in, tmp_path)
    assert "x = 1" in (clone / "train.py").read_text()
    assert "after = 1" in (clone / "new.py").read_text()
    assert facts["blobs"]["train.py"].startswith("masked:")


def test_a_patch_with_masked_context_is_reported_as_not_applicable(code, make_context, git_in):
    (code / "train.py").write_text('password = "correct-horse-battery"\nlr = 1\n')
    git_in(code, "commit", "-qam", "secret")
    (code / "train.py").write_text('password = "correct-horse-battery"\nlr = 2\n')
    context = make_context(code, "python", "train.py")
    facts = capture(context)
    assert "no longer applies to train.py" in facts["patch_note"]
    assert "correct-horse" not in (context.attachments / facts["patch"]).read_text()


def test_known_values_of_the_run_are_masked(code, make_context):
    (code / "train.py").write_text("run('zq9kfh3mmw2x')\n")
    context = make_context(code, "python", "train.py", known=["zq9kfh3mmw2x"])
    facts = capture(context)
    assert "zq9kfh3mmw2x" not in (context.attachments / facts["patch"]).read_text()


def test_patch_is_limited_and_names_omitted_files(code, make_context, git_in, tmp_path):
    (code / "big.py").write_text("x = 1\n" * 5000)
    (code / "small.py").write_text("y = 1\n")
    (code / "data.json").write_text("[" + "1," * 60000 + "1]")
    context = make_context(code, "python", "train.py", patch_max_bytes=4000)
    facts = capture(context)
    assert sorted(facts["too_large"]) == ["big.py", "data.json"]
    assert "limited to 4,000 bytes" in facts["patch_note"]
    clone = applied(code, context, facts, git_in, tmp_path)
    assert (clone / "small.py").read_text() == "y = 1\n"


def test_file_that_became_a_link(code, make_context, git_in, tmp_path):
    (code / "b.py").write_text("1\n")
    git_in(code, "add", ".")
    git_in(code, "commit", "-qm", "b")
    (code / "train.py").unlink()
    (code / "train.py").symlink_to("b.py")
    (code / "b.py").write_text("2\n")
    (code / "link.py").symlink_to("/etc/passwd")
    context = make_context(code, "python", "b.py")
    facts = capture(context)
    clone = applied(code, context, facts, git_in, tmp_path)
    assert os.readlink(clone / "train.py") == "b.py"
    assert (clone / "b.py").read_text() == "2\n"
    assert "root:" not in (context.attachments / facts["patch"]).read_text()
    assert facts["binaries"] == ["link.py (a link)"]


def test_users_diff_settings_do_not_spoil_the_patch(code, make_context, git_in, tmp_path):
    for setting in (
        "diff.noprefix=true",
        "color.ui=always",
        "diff.mnemonicPrefix=true",
        "core.quotePath=true",
        "diff.renames=copies",
        "diff.submodule=log",
        "diff.relative=true",
        "status.branch=false",
    ):
        git_in(code, "config", *setting.split("="))
    (code / "sub").mkdir()
    (code / "sub" / "naïve.py").write_text("1\n")
    (code / "train.py").write_text("changed\n")
    git_in(code, "add", "sub")
    context = make_context(code / "sub", "python", "naïve.py")
    facts = capture(context)
    clone = applied(code, context, facts, git_in, tmp_path)
    same_files(code, clone, ["train.py", "sub/naïve.py"])


def test_attachments_that_cannot_be_written_are_reported(code, make_context, monkeypatch):
    (code / "train.py").write_text("x\n")
    context = make_context(code, "python", "train.py")
    shutil.rmtree(context.attachments)
    context.attachments.write_text("in the way")
    facts = capture(context)
    assert facts["patch"] == ""
    assert "could not be written" in facts["patch_note"]
