"""`labbook redact`: masks, or reports rule and line and never the value."""

import json
import subprocess
import sys

import pytest

from labbook.cli import main
from labbook.store.recorder_redaction import example_text

SECRET = example_text("ghp_{alnum:36}")


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOME_API_KEY", "Zq81xxAb")
    path = tmp_path / "train.log"
    path.write_text(f"epoch 1 loss 0.5\ntoken {SECRET}\nZq81xxAb /home/somebody/x\n", encoding="utf-8")
    return path


def test_check_reports_rule_and_line_only(log, capsys):
    assert main(["redact", "--check", str(log)]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines() == [f"{log}:2: github_token", f"{log}:3: known", f"{log}:3: user"]
    assert "3 secrets found in 1 file" in err and SECRET not in out + err


def test_check_of_clean_files(tmp_path, capsys, log):
    clean = tmp_path / "clean.md"
    clean.write_text("loss 0.5\n")
    assert main(["redact", "--check", str(clean), str(clean)]) == 0
    assert capsys.readouterr().out == ""


def test_json(log, capsys):
    assert main(["redact", "--check", "--json", str(log)]) == 1
    assert json.loads(capsys.readouterr().out)[0] == {"file": str(log), "line": 2, "rule": "github_token"}


def test_masked_text(log, capsys):
    assert main(["redact", str(log)]) == 0
    expected = "epoch 1 loss 0.5\ntoken [REDACTED:github_token]\n[REDACTED:known] /home/[USER]/x\n"
    assert capsys.readouterr().out == expected


def test_standard_input(log):
    done = subprocess.run(
        [sys.executable, "-m", "labbook", "redact", "--check", "-"],
        input=log.read_bytes(),
        capture_output=True,
        cwd=log.parent,
    )
    assert done.returncode == 1 and b"-:2: github_token" in done.stdout and SECRET.encode() not in done.stdout


def test_own_rules(log, tmp_path, capsys):
    rules = tmp_path / "rules.toml"
    rules.write_text(
        "[[rules]]\nid = 'epoch'\nkeywords = ['epoch']\npattern = 'epoch 1'\nrun = false\nyes = ['epoch 1']\n"
    )
    assert main(["redact", "--check", "--rules", str(rules), str(log)]) == 1
    assert f"{log}:1: epoch" in capsys.readouterr().out


def test_usage(log, tmp_path, capsys):
    assert main(["redact", "--json", str(log)]) == 2
    assert main(["redact", "--check", str(tmp_path / "missing")]) == 2
    assert main(["redact"]) == 2
    assert main(["redact", "--notebook", str(tmp_path / "missing"), str(log)]) == 3
