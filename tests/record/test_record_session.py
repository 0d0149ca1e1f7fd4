"""`labbook record` from the command line to the committed entry, on real programs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from order_of_tests import further

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def test_a_script_becomes_a_committed_entry(book, git):
    (book.folder / "hello.py").write_text("print('hello')\n")

    done = book.record(sys.executable, "hello.py")

    run = book.run()
    assert done.stdout == "hello\n"
    assert run["status"] == "finished" and run["exit_code"] == 0
    assert "hello" in book.entry()
    assert run["entry"] in git(book.folder, "ls-tree", "-r", "--name-only", "HEAD")
    assert run["commit"] and git(book.folder, "rev-parse", "HEAD") == run["commit"]
    assert not [line for line in git(book.folder, "status", "--porcelain").splitlines() if "notes" in line]
    assert run["id"] in done.stderr and run["entry"] in done.stderr


@pytest.mark.torch
def test_a_torch_training_is_described(book):
    program = str(EXAMPLES / "digits_torch.py")
    book.record(sys.executable, program, "--epochs", "2", "--lr", "0.1", framework="torch")

    run = book.run()
    loss = run["metrics"]["loss"]
    assert loss["steps"] == 44 and loss["last"] < loss["first"]
    assert {"lr", "grad_norm"} <= set(run["metrics"])
    entry = book.entry()
    assert "frameworks: [torch 2.13" in entry
    for section in ("## Health checklist", "## Curves", "## Console", "## Configuration", "## Environment", "## Code"):
        assert section in entry, section
    assert "DigitsNet" in entry and "0.1" in entry
    assert "| features.0 | Conv2d | 64x1x8x8 → 64x16x8x8 | 160 |" in entry
    assert "| training, step 1 | input 0 | 64x1x8x8 | float32 | -0.3 to 0.7 |" in entry
    assert "Layer outputs at step 1" in entry and "update_ratio" in run["metrics"]
    folder = (book.folder / run["entry"]).with_suffix("")
    assert {"curves.svg", "metrics.csv", "environment.txt", "run.json"} <= {p.name for p in folder.iterdir()}
    assert "scikit-learn" in (folder / "environment.txt").read_text()


@pytest.mark.paddle
@pytest.mark.long
def test_a_paddle_training_is_described(book):
    book.record(sys.executable, str(EXAMPLES / "digits_paddle.py"), "--epochs", "2", "--lr", "0.1")

    run = book.run()
    loss = run["metrics"]["loss"]
    assert loss["steps"] == 44 and loss["last"] < loss["first"]
    assert {"lr", "grad_norm"} <= set(run["metrics"])
    assert "frameworks: [paddle 3.3" in book.entry()


@pytest.mark.torch
@pytest.mark.long
def test_ranks_of_torchrun_have_separate_series(book):
    script = book.folder / "ranks.py"
    script.write_text(
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "torch.manual_seed(dist.get_rank())\n"
        "m = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))\n"
        "o = torch.optim.SGD(m.parameters(), lr=0.1)\n"
        "for _ in range(5):\n"
        "    o.zero_grad(); loss = m(torch.randn(8, 4)).pow(2).mean(); loss.backward(); o.step()\n"
        "dist.destroy_process_group()\n"
    )
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--master-port",
        "0",
        "--standalone",
        "ranks.py",
    ]

    book.record(*command, env={**os.environ, "OMP_NUM_THREADS": "1"})

    run = book.run()
    ranks = {s["rank"] for s in run["series"] if s["name"] == "loss" and s["source"] == "probe"}
    assert ranks == {0, 1}
    assert run["metrics"]["loss"]["steps"] == 5


def test_a_shell_script_with_two_python_steps(book):
    (book.folder / "run.sh").write_text(f"{sys.executable} one.py\n{sys.executable} two.py\n")
    (book.folder / "one.py").write_text("print('first step')\n")
    (book.folder / "two.py").write_text("print('second step')\n")

    book.record("bash", "run.sh")

    run = book.run()
    assert run["script"] == "run.sh"
    shown = [" ".join(p["argv"]) for p in run["processes"]]
    assert any("one.py" in s for s in shown) and any("two.py" in s for s in shown)
    assert "first step" in book.entry() and "second step" in book.entry()


def test_a_crash_names_the_line_of_the_user(book):
    (book.folder / "boom.py").write_text("def deep(x):\n    return x['missing']\n\ndeep({})\n")

    done = book.record(sys.executable, "boom.py", check=False)

    assert done.returncode == 1
    assert "Traceback" in done.stderr and "boom.py:2" in done.stderr
    run = book.run()
    assert run["status"] == "failed"
    assert run["exceptions"][0]["type"] == "KeyError"
    assert "boom.py:2" in book.entry()


def test_the_result_is_a_file_that_show_would_print(book):
    (book.folder / "plain.py").write_text("print(1)\n")
    done = book("record", "--json", "result.json", "--", sys.executable, "plain.py")
    result = json.loads((book.folder / "result.json").read_text())
    assert done.stdout == "1\n" and result == book.run()
    failed = book("record", "--json", "none/result.json", "--", sys.executable, "-c", "exit(3)", check=False)
    assert failed.returncode == 3 and "none" in failed.stderr


@pytest.mark.parametrize("code", [1, 255, *further(0, 3, 77, 137, 139)])
def test_the_exit_status_is_the_commands(book, code):
    assert book.record("sh", "-c", f"exit {code}", check=False).returncode == code


@pytest.mark.parametrize(("name", "status"), [("INT", "interrupted"), ("TERM", "interrupted"), ("KILL", "killed")])
def test_death_by_signal_is_passed_on(book, name, status):
    done = book.record("sh", "-c", f"kill -{name} $$; sleep 5", check=False)

    number = getattr(signal, f"SIG{name}")
    assert done.returncode in (-number, 128 + number)
    assert book.run()["status"] == status


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [(["no-such-program"], 127, "program not found"), (["./plain.txt"], 126, "not executable"), ([], 2, "no command")],
)
def test_a_command_that_cannot_start_is_reported_in_one_line(book, command, code, says):
    (book.folder / "plain.txt").write_text("x")

    done = book("record", "--", *command, check=False)

    assert done.returncode == code
    assert says in done.stderr and "Traceback" not in done.stderr
    assert not list((book.folder / "notes").rglob("2*.md"))


def test_a_program_without_the_probe_is_recorded_with_a_note(book):
    (book.folder / "alone.py").write_text("print('alone')\n")

    book.record(sys.executable, "-I", "alone.py")

    run = book.run()
    assert run["probe"]["status"] == "absent"
    assert "## Not observed" in book.entry()


def test_a_broken_settings_file_does_not_stop_the_command(book):
    (book.folder / "labbook.toml").write_text("title = \n")

    done = book.record("sh", "-c", "echo still runs; exit 4", check=False)

    assert done.returncode == 4 and done.stdout == "still runs\n"
    assert "labbook.toml" in done.stderr and "Traceback" not in done.stderr
    assert "personal notebook" in done.stderr


def test_an_unwritable_notebook_does_not_stop_the_command(book, tmp_path):
    (tmp_path / "file").write_text("")

    done = book("record", "--notebook", str(tmp_path / "file"), "--", "sh", "-c", "echo runs; exit 5", check=False)

    assert done.returncode == 5 and done.stdout == "runs\n"
    assert "Traceback" not in done.stderr


def test_no_git_on_the_path_still_writes_the_entry(book, tmp_path):
    (tmp_path / "bin").mkdir()
    shell = Path("/bin/sh")
    (tmp_path / "bin" / "sh").symlink_to(shell)

    done = book.record("sh", "-c", "echo fine", env={**os.environ, "PATH": str(tmp_path / "bin")})

    assert "git" in done.stderr and "Traceback" not in done.stderr
    entries = list((book.folder / "notes" / "runs").rglob("*.md"))
    assert len(entries) == 1 and "fine" in entries[0].read_text()


def test_changes_since_the_previous_run(project, git):
    (project.folder / "train.py").write_text(
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr', type=float)\nprint(p.parse_args().lr)\n"
    )
    git(project.folder, "commit", "-qam", "arguments")
    project.record(sys.executable, "train.py", "--lr", "0.1")
    first = project.run()["id"]

    project.record(sys.executable, "train.py", "--lr", "3.0")

    run = project.run()
    assert run["previous"] == first
    change = next(c for c in run["changes"] if c["what"] in ("--lr", "lr"))
    assert (change["before"], change["now"]) == ("0.1", "3")
    assert f"since {first}" in project.entry() or f"since [{first}]" in project.entry()


def test_uncommitted_code_is_stored_as_a_patch_that_applies(project, git, tmp_path):
    (project.folder / "train.py").write_text("print('changed')\n")
    (project.folder / "model.py").write_text("WIDTH = 8\n")

    project.record(sys.executable, "train.py")

    run = project.run()
    patch = (project.folder / run["entry"]).with_suffix("") / "changes.patch"
    copy = tmp_path / "copy"
    git(tmp_path, "clone", "-q", str(project.folder), str(copy))
    git(copy, "apply", str(patch))
    assert (copy / "train.py").read_text() == "print('changed')\n"
    assert (copy / "model.py").read_text() == "WIDTH = 8\n"


def test_the_code_repository_is_not_changed(project, git):
    (project.folder / "staged.py").write_text("x = 1\n")
    git(project.folder, "add", "staged.py")
    git(project.folder, "add", "-A")
    before = [git(project.folder, *c) for c in (("status", "--porcelain"), ("diff", "--cached"), ("rev-parse", "HEAD"))]

    project.record(sys.executable, "train.py")

    after = [git(project.folder, *c) for c in (("status", "--porcelain"), ("diff", "--cached"), ("rev-parse", "HEAD"))]
    assert before == after
    assert project.run()["entry"] in git(project.folder, "ls-tree", "-r", "--name-only", "refs/heads/labbook")


def test_no_secret_reaches_notebook_or_git(book, git):
    secret = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz012345"[:34]
    plain = "correct-horse-battery-9"
    (book.folder / "leak.py").write_text(
        "import os, sys\nprint('token', os.environ['MY_API_KEY'])\nprint(sys.argv)\n"
        "raise ValueError(os.environ['MY_API_KEY'])\n"
    )

    book.record(sys.executable, "leak.py", "--password", plain, env={**os.environ, "MY_API_KEY": secret}, check=False)

    found = subprocess.run(
        ["grep", "-rlF", "-e", secret, "-e", plain, "."], cwd=book.folder, capture_output=True, text=True
    )
    assert found.stdout == ""
    everything = git(book.folder, "log", "-p", "--all")
    assert secret not in everything and plain not in everything


def test_the_notebooks_own_rules_mask_in_console_and_probe(book, git):
    (book.folder / "rules.toml").write_text(
        '[[rules]]\nid = "badge"\nkeywords = ["BADGE-"]\npattern = "BADGE-[0-9]{6}"\nyes = ["BADGE-123456"]\n'
        "run = false\n"
    )
    settings = book.folder / "labbook.toml"
    settings.write_text(settings.read_text().replace('redact_rules = ""', 'redact_rules = "rules.toml"'))
    (book.folder / "badge.py").write_text("print('BADGE-' + '654321')\nraise ValueError('for BADGE-' + '654321')\n")

    book.record(sys.executable, "badge.py", check=False)

    found = subprocess.run(["grep", "-rlF", "BADGE-654321", "."], cwd=book.folder, capture_output=True, text=True)
    assert found.stdout == "" and "[REDACTED:badge]" in book.entry()


def test_a_long_output_has_a_file_of_its_own(book):
    code = "for i in range(20000): print(f'line {i} of a long output')\nraise ValueError('at the end')"
    (book.folder / "talk.py").write_text(code)
    book.record(sys.executable, "talk.py", check=False)

    run, entry = book.run(), book.entry()
    (file,) = (book.folder / "notes").rglob("console.txt")
    stored = json.loads((file.parent / "run.json").read_text())["console"]
    assert len(stored["text"]) < 300_000 and stored["lines"] > 20000
    assert "line 0 of" in stored["text"] and "ValueError: at the end" in stored["text"]
    assert file.read_text() == run["console"]["text"] and file.read_text().count(" of a long output") == 20000
    assert f"[console.txt]({run['id']}/console.txt)" in entry


def test_the_journal_is_private_and_ignored(book, git):
    book.record("true")

    journals = book.folder / ".labbook" / "runs"
    journal = next(journals.iterdir())
    assert stat.S_IMODE(journal.stat().st_mode) == 0o700
    assert git(book.folder, "check-ignore", str(journal))


def test_the_entry_exists_while_the_command_runs(book):
    process = subprocess.Popen(
        [sys.executable, "-m", "labbook", "record", "--", "cat"],
        cwd=book.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 90
        entries: list[Path] = []
        while not entries and time.monotonic() < deadline and process.poll() is None:
            entries = list((book.folder / "notes" / "runs").rglob("*.md"))
            time.sleep(0.05)
        assert entries and "status: running" in entries[0].read_text()
    finally:
        process.stdin.close()
        process.wait(60)
    assert "status: finished" in entries[0].read_text()


def test_notes_and_tags_of_the_command_line(book):
    book("record", "-m", "larger batch", "-t", "sweep", "--", "true")

    assert "larger batch" in book.entry()
    assert "sweep" in book.run()["tags"]


def test_quiet_prints_nothing(book):
    assert book("record", "--quiet", "--", "true").stderr == ""


def test_the_personal_notebook_needs_no_setting_up(tmp_path, book):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    done = book.record("echo", "hi", cwd=elsewhere)

    assert done.stderr.rstrip().splitlines()[-1].count("personal notebook") == 1
    listed = json.loads(book("list", "--json", cwd=elsewhere).stdout)
    assert len(listed) == 1


@pytest.mark.torch
@pytest.mark.long
def test_failed_checks_of_a_training_are_printed_at_the_end(book):
    """Seven sigmoids one after another: the first layers get no gradient, and the loss stays where it was."""
    script = book.folder / "deep.py"
    script.write_text(
        "import torch\n"
        "from digits_data import load_digits\n"
        "torch.manual_seed(0)\n"
        "x, y = map(torch.tensor, load_digits(return_X_y=True))\n"
        "x = x.float() / 16\n"
        "layers = [part for _ in range(7) for part in (torch.nn.Linear(64, 64), torch.nn.Sigmoid())]\n"
        "net = torch.nn.Sequential(*layers, torch.nn.Linear(64, 10))\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for step in range(150):\n"
        "    at = torch.arange(step * 64, step * 64 + 64) % len(x)\n"
        "    loss = torch.nn.functional.cross_entropy(net(x[at]), y[at])\n"
        "    optimizer.zero_grad(); loss.backward(); optimizer.step()\n"
    )
    shutil.copy(ROOT / "tests" / "programs" / "digits_data.py", book.folder)

    done = book.record(sys.executable, "deep.py")

    assert "fail  Gradient norm in the first layers: 0.weight: " in done.stderr
    run = book.run()
    assert run["symptoms"][0] == "vanishing_gradient"
    assert run["id"] in book("list", "symptom:vanishing_gradient").stdout
    assert "/flow.svg)" in book.entry()


@pytest.mark.parametrize("framework", [pytest.param("torch", marks=pytest.mark.long), "paddle"])
@pytest.mark.long
def test_health_can_be_switched_off(book, framework):
    script = str(EXAMPLES / f"digits_{framework}.py")
    book("record", "--debug", "off", "--", sys.executable, script, "--epochs", "2")

    run = book.run()
    assert {"loss", "lr", "grad_norm"} <= set(run["metrics"])
    entry = book.entry()
    assert "| health of the training | switched off by --debug off |" in entry
    assert "## Debug output" not in entry
