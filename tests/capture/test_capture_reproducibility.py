"""The verdict on reproducibility, and the facts of all sources together."""

from __future__ import annotations

import json
import sys

from order_of_tests import in_one_test

from labbook.capture.reproducibility import judge_reproducibility
from labbook.capture.sources import BEFORE, capture_after, capture_before

PUSHED = {
    "repository": True,
    "commit": "9f2c1d7aa0b3",
    "dirty": False,
    "remote": "https://x/y",
    "ahead": 0,
    "patch_complete": True,
}
PYTHON = {"version": "3.11", "packages": {"numpy": "1"}, "count": 1, "origins": {}, "files": ["environment.txt"]}
LOCKED = {"files": [{"path": "uv.lock", "locks": True, "matches": True, "not_locked": 0}]}


def test_the_best_case():
    found = judge_reproducibility({"code": PUSHED, "python": PYTHON, "lockfiles": LOCKED})
    assert (found["clean"], found["locked"], found["rebuildable"]) == (True, True, True)
    assert found["reasons"] == [
        "All code is in commit 9f2c1d7aa.",
        "The commit is on the remote.",
        "The installed packages are those that uv.lock locks.",
        "All 1 packages are listed with their versions in environment.txt.",
    ]


@in_one_test(
    ("source", "fields", "clean", "locked", "rebuildable", "sentence"),
    [
        ("code", {"dirty": True}, False, True, True, "saved as a patch on commit 9f2c1d7aa"),
        (
            "code",
            {"dirty": True, "patch_complete": False, "patch_note": "Binary: a."},
            False,
            True,
            False,
            "Binary: a.",
        ),
        ("code", {"dirty": None}, False, True, False, "is not known"),
        ("code", {"remote": ""}, True, True, False, "this machine only"),
        ("code", {"ahead": 1}, True, True, False, "1 commit had not been pushed"),
        ("code", {"ahead": None}, True, True, False, "not known whether the commit was pushed"),
        ("code", {"commit": "", "dirty": True}, False, True, True, "no commit yet"),
        ("code", {"repository": False, "commit": "", "dirty": True}, False, True, True, "in no git repository"),
        ("code", {"unavailable": "no script"}, False, True, False, "not known: no script"),
        ("python", {"origins": {"mine": {"url": "~/mine", "commit": ""}}}, True, True, False, "this machine: mine"),
        ("python", {"unavailable": "no hello"}, True, True, False, "not known: no hello"),
        ("python", {"files": []}, True, True, True, "could not be saved"),
        ("lockfiles", {"unavailable": "none"}, True, False, True, "no lock file"),
        (
            "lockfiles",
            {"files": [{"path": "pyproject.toml", "locks": False}]},
            True,
            False,
            True,
            "not locked (pyproject.toml)",
        ),
        (
            "lockfiles",
            {
                "files": [
                    {
                        "path": "uv.lock",
                        "locks": True,
                        "matches": False,
                        "mismatch_count": 3,
                        "mismatches": [{"name": "numpy", "locked": "1", "installed": "2"}],
                    }
                ]
            },
            True,
            False,
            True,
            "differ from uv.lock: numpy 2 instead of 1, and 2 more",
        ),
        (
            "lockfiles",
            {"files": [{"path": "r.txt", "locks": True, "matches": True, "not_locked": 4}]},
            True,
            False,
            True,
            "4 installed packages are not in it",
        ),
        (
            "lockfiles",
            {"files": [{"path": "r.txt", "locks": True, "matches": None}]},
            True,
            False,
            True,
            "could not be compared",
        ),
    ],
)
def test_each_reason(source, fields, clean, locked, rebuildable, sentence):
    facts = {"code": dict(PUSHED), "python": dict(PYTHON), "lockfiles": dict(LOCKED)}
    facts[source] = {**facts[source], **fields}
    found = judge_reproducibility(facts)
    assert (found["clean"], found["locked"], found["rebuildable"]) == (clean, locked, rebuildable)
    assert any(sentence in reason for reason in found["reasons"]), found["reasons"]
    assert all(not reason[0].islower() and reason.endswith(".") for reason in found["reasons"])


def test_nothing_captured_is_not_reproducible():
    found = judge_reproducibility({})
    assert (found["clean"], found["locked"], found["rebuildable"]) == (False, False, False)


def test_all_sources_of_a_real_run(code, make_context):
    context = make_context(
        code,
        "python",
        "train.py",
        python={
            "version": "3.11.7",
            "prefix": sys.prefix,
            "base_prefix": sys.base_prefix,
            "sys_path": sys.path,
            "executable": sys.executable,
        },
    )
    before, after = capture_before(context), capture_after(context)
    assert tuple(before) == tuple(BEFORE)
    assert json.loads(json.dumps({**before, **after})) == {**before, **after}
    assert not [name for name, facts in before.items() if "unavailable" in facts]
    found = judge_reproducibility({**before, **after})
    assert found["clean"] is True
    assert found["rebuildable"] is False


def test_facts_are_redacted_but_package_versions_stay(code, make_context, monkeypatch, tmp_path):
    secret = "zq9kfh3mmw2xv7"
    (code / f"{secret}.py").write_text("1\n")
    site = tmp_path / "site-packages"
    (site / "password-1.2.3rc1.dist-info").mkdir(parents=True)
    context = make_context(
        code,
        "python",
        "train.py",
        "--token",
        secret,
        known=[secret],
        python={"version": "3.11", "prefix": str(tmp_path), "sys_path": [str(site)]},
    )
    before, after = capture_before(context), capture_after(context)
    assert secret not in json.dumps(before)
    assert after["python"]["packages"] == {"password": "1.2.3rc1"}


def test_a_source_that_fails_harms_no_other(code, make_context, monkeypatch):
    from labbook.capture import hardware

    def fail(context):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(hardware, "capture", fail)
    before = capture_before(make_context(code, "python", "train.py"))
    assert before["hardware"] == {"unavailable": "a bug in labbook (hardware): ZeroDivisionError: oops"}
    assert before["code"]["branch"] == "main"
