"""`--watch`, `--break`, `--stop-on`, `--max-steps` and `--profile` on real trainings of both frameworks."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

from labbook.errors import UsageError
from labbook.probe.training.request_conditions import is_true
from labbook.record.program_requests import parse_requests
from labbook.record.watch_expressions import parse_condition

PROGRAMS = Path(__file__).resolve().parents[1] / "programs"
TORCH = pytest.param("torch", marks=pytest.mark.torch)
PADDLE = pytest.param("paddle", marks=pytest.mark.paddle)
# Both frameworks have the same mechanisms here: in a short pass each shows one half.
FIRST_TORCH = [TORCH, pytest.param("paddle", marks=[pytest.mark.paddle, pytest.mark.long])]
FIRST_PADDLE = [PADDLE, pytest.param("torch", marks=[pytest.mark.torch, pytest.mark.long])]


def digits(framework: str, *options: str) -> list[str]:
    return [sys.executable, str(PROGRAMS / f"digits_{framework}.py"), *options]


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("loss > 10", {"loss": 11.0}, True),
        ("loss > 10", {"loss": float("nan")}, False),
        ("loss > 10", {}, None),
        ("not loss > 10", {}, None),
        ("loss > 10 or lr >= 0.1", {"lr": 0.1}, True),
        ("loss > 10 and lr >= 0.1", {"lr": 0.01}, False),
        ("(loss > 1 or lr > 1) and not grad_norm < -1.5e3", {"loss": 2.0, "lr": 0.0, "grad_norm": 0.0}, True),
        ("0 < val/loss <= 0.5", {"val/loss": 0.5}, True),
        ("'val/acc@5' == 1", {"val/acc@5": 1.0}, True),
        ("loss.opt1 != nan", {"loss.opt1": float("nan")}, False),
        ("loss == nan", {"loss": float("nan")}, True),
        ("loss == inf", {"loss": float("-inf")}, False),
        ("nan", {"loss": 1.0, "grad_norm": float("inf")}, True),
        ("nan", {"val/loss": float("nan")}, None),
        ("inf", {"loss.opt1": float("nan")}, False),
        ("inf", {"grad_norm.opt1": float("inf")}, True),
        ("损失 < 1", {"损失": 0.5}, True),
    ],
)
def test_conditions_hold_when_they_should(text, values, expected):
    condition = json.loads(json.dumps(parse_condition(text, "--watch"), allow_nan=False))

    assert is_true(condition, values) is expected


@pytest.mark.parametrize(
    ("text", "character"),
    [
        ("", 1),
        ("loss >", 7),
        ("loss", 1),
        ("1 < 2", 1),
        ("loss > 1 and lr", 14),
        ("loss > nan", 8),
        ("loss is 3", 9),
        ("loss > print(1)", 8),
        ("__import__('os').system('true')", 1),
        ("loss > True", 8),
        ("损失 > 1 and foo()", 12),
        ("(" * 250 + "loss > 1", None),
        ("loss > 1 or " * 60 + "loss > 1", None),
        ("loss := 3", None),
        ("loss > 1\nimport os", None),
    ],
)
def test_a_bad_condition_is_reported_with_its_position(text, character):
    with pytest.raises(UsageError) as caught:
        parse_condition(text, "--watch")

    assert caught.value.message.startswith("--watch")
    if character is not None:
        assert f"character {character}:" in caught.value.message


@pytest.mark.parametrize("profile", ["python", "0", "1000", "-1"])
def test_a_profile_needs_a_sensible_number_of_steps(profile):
    with pytest.raises(UsageError):
        parse_requests(profile=profile)


def test_a_bad_condition_starts_nothing(book):
    done = book("record", "--watch", "loss >", "--", "touch", "started", check=False)

    assert done.returncode == 2 and "character 7" in done.stderr and "Traceback" not in done.stderr
    assert not (book.folder / "started").exists()
    assert book("record", "--stop-on", "nan", "--no-probe", "--", "true", check=False).returncode == 2
    assert book("record", "--max-steps", "0", "--", "true", check=False).returncode == 2


@pytest.mark.parametrize("framework", FIRST_TORCH)
def test_moments_land_in_the_entry(book, framework):
    command = digits(framework, "--lr", "0.01", "--steps", "30")
    watched = ("--watch", "loss < 2", "--watch", "accuracy > 2", "--watch", "loss > 1e6")
    book("record", *watched, "--", *command, framework=framework)

    asked = facts(book)["asked"]
    moments = asked["moments"]
    assert 1 <= len(moments) <= 3 and all(m["expression"] == "loss < 2" for m in moments)
    first = moments[0]
    assert first["values"]["loss"] < 2 and first["series"]["loss"][-1] == first["values"]["loss"]
    assert first["steps"]["loss"] == list(range(1, first["step"] + 1))[-20:]
    assert all(value >= 2 for value in first["series"]["loss"][:-1])
    assert first["line"].startswith(f"digits_{framework}.py:")
    leaf = first["batch"]["leaves"][0]
    assert leaf["shape"] == [32, 64] and leaf["min"] == 0 and leaf["max"] == 1
    entry = book.entry()
    assert "## Watched conditions" in entry and f"**Step {first['step']}**" in entry
    assert "no value of accuracy was recorded" in entry and "never true" in entry


@pytest.mark.parametrize("framework", FIRST_PADDLE)
@pytest.mark.long
def test_watching_changes_nothing(book, framework):
    command = digits(framework, "--steps", "25", "--clip", "1.0")
    plain = subprocess.run(command, capture_output=True, text=True, check=True, env=one_thread())

    watched = book(
        "record", "--watch", "loss < 2", "--watch", "nan", "--stop-on", "nan", "--max-steps", "1000", "--", *command,
        env=one_thread(),
    )  # fmt: skip

    assert json.loads(watched.stdout.splitlines()[-1]) == json.loads(plain.stdout.splitlines()[-1])


@pytest.mark.parametrize("framework", FIRST_TORCH)
def test_stop_on_nan_ends_the_run(book, framework):
    write_loop(book, LOOPS[framework])

    done = book(
        "record", "--stop-on", "nan", "--", sys.executable, "train.py", "nan-at-7", check=False, framework=framework
    )

    assert done.returncode == 65
    assert "closed after 7" in done.stdout and "went on" not in done.stdout
    assert "ended by --stop-on nan after step 7" in done.stderr
    run = book.run()
    assert run["status"] == "interrupted" and run["exit_code"] == 65
    assert "`--stop-on nan` after step 7" in book.entry()
    assert not facts(book)["exceptions"]


@pytest.mark.parametrize("framework", FIRST_TORCH)
@pytest.mark.long
def test_a_dry_run_ends_after_its_steps(book, framework):
    done = book("record", "--max-steps", "6", "--profile", "2", "--", *digits(framework, "--steps", "500"))

    run = book.run()
    assert done.returncode == 0 and run["status"] == "finished"
    assert run["metrics"]["loss"]["steps"] == 6
    (profile,) = facts(book)["asked"]["profiles"]
    assert (profile["begin_step"], profile["end_step"]) == (5, 6) and profile["rows"]
    folder = (book.folder / run["entry"]).with_suffix("")
    assert (folder / profile["file"]).stat().st_size > 1000
    flame = ElementTree.parse(folder / profile["flame"]).getroot()
    assert len(list(flame.iter("{http://www.w3.org/2000/svg}title"))) > 10
    scope = json.loads((folder / profile["speedscope"]).read_text())
    names = {frame["name"] for frame in scope["shared"]["frames"]}
    assert {"torch": "aten::addmm", "paddle": "Optimization Step"}[framework] in names
    assert not any(name.endswith("us]") for name in names)
    assert ElementTree.parse(folder / profile["memory"]).getroot() is not None
    assert f"({folder.name}/{profile['flame']})" in book.entry()
    assert "## Profile" in book.entry() and "`--max-steps` after step 6" in book.entry()
    assert not (book.folder / "profiler_log").exists()


@pytest.mark.torch
@pytest.mark.long
def test_a_profile_holds_the_work_of_the_program_alone(book):
    program = [sys.executable, str(PROGRAMS / "profiled_torch.py")]
    done = book("record", "--profile", "4", "--", *program)
    plain = subprocess.run([*program, "--profile"], capture_output=True, text=True, check=True, timeout=120)

    expected = json.loads(plain.stdout.splitlines()[-1])
    (profile,) = facts(book)["asked"]["profiles"]
    assert (profile["begin_step"], profile["end_step"]) == (10, 13) and len(profile["rows"]) == 20
    assert {row["name"]: row["calls"] for row in profile["rows"]}.items() <= expected["operators"].items()
    assert profile["operators"] == len(expected["operators"])
    # What is due in the profiled steps is looked at after them, and results are the same bit by bit.
    lines = [line for path in book.folder.rglob("events/*.jsonl") for line in path.read_text().splitlines()]
    steps = [event["step"] for event in map(json.loads, lines) if event["k"] == "tensors"]
    assert steps[:5] == [1, 2, 3, 4, 5] and not {10, 11, 12, 13} & set(steps) and {14, 15} & set(steps)
    recorded = next(line for line in done.stdout.splitlines() if line.startswith("{"))
    assert json.loads(recorded)["digest"] == expected["digest"]


@pytest.mark.torch
@pytest.mark.long
def test_a_program_that_catches_everything_is_terminated(book):
    write_loop(book, LOOPS["torch"].replace("# SWALLOW", "except BaseException: continue"))

    done = book("record", "--max-steps", "3", "--", sys.executable, "train.py", check=False, timeout=60)

    assert done.returncode in (-15, 143)
    assert book.run()["status"] == "interrupted"


@pytest.mark.torch
@pytest.mark.long
def test_training_in_a_thread_is_interrupted(book):
    write_loop(book, LOOPS["torch"].replace("main()\n", THREAD))

    done = book("record", "--max-steps", "5", "--", sys.executable, "train.py", check=False, timeout=60)

    assert done.returncode in (-2, 130)
    assert facts(book)["asked"]["stopped"]["how"] == "interrupt"


@pytest.mark.torch
@pytest.mark.long
def test_logged_numbers_are_watched_too(book):
    write_loop(book, LOOPS["torch"].replace("# LOG", "import labbook; labbook.log(**{'val/acc': step / 10})"))

    done = book("record", "--stop-on", "val/acc >= 0.4", "--", sys.executable, "train.py", check=False)

    assert done.returncode == 65
    stopped = facts(book)["asked"]["stopped"]
    assert stopped["expression"] == "val/acc >= 0.4" and "closed after 4" in done.stdout


@pytest.mark.torch
@pytest.mark.long
def test_without_a_terminal_the_debugger_is_refused_with_a_reason(book):
    done = book("record", "--break", "loss < 100", "--", *digits("torch", "--steps", "3"))

    assert done.returncode == 0
    assert "standard input is no terminal" in book.entry()


@pytest.mark.parametrize("framework", FIRST_PADDLE)
def test_break_stops_in_the_users_frame(book, framework):
    write_loop(book, LOOPS[framework])
    command = [sys.executable, "-m", "labbook", "record", "--break", "loss != nan and lr > 0", "--", sys.executable]

    shown = converse([*command, "train.py"], book.folder, ["p 'step', step\n", "p type(model).__name__\n", "c\n"])

    assert "--break loss != nan and lr > 0 at step 1" in shown
    assert "('step', 1)" in shown and "'Sequential'" in shown
    assert "went on to 12" in shown
    assert book.run()["status"] == "finished"


def write_loop(book, text: str) -> None:
    """Writes `train.py`, and the module beside it that reads its data."""
    (book.folder / "train.py").write_text(text)
    shutil.copy(PROGRAMS / "digits_data.py", book.folder)


def facts(book) -> dict:
    """`run.json` of the last run."""
    return json.loads(((book.folder / book.run()["entry"]).with_suffix("") / "run.json").read_text())


def one_thread() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def converse(command: list[str], folder: Path, answers: list[str]) -> str:
    """Runs a command on a terminal of its own and answers each prompt of pdb."""
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execv(command[0], command)
    shown, end = "", time.monotonic() + 90
    waiting = list(answers)
    seen = 0
    try:
        while time.monotonic() < end:
            if not select.select([master], [], [], 0.5)[0]:
                continue
            try:
                data = os.read(master, 65536)
            except OSError:
                break
            if not data:
                break
            shown += data.decode(errors="replace")
            if waiting and shown.count("(Pdb)") > seen:
                seen = shown.count("(Pdb)")
                os.write(master, waiting.pop(0).encode())
    finally:
        os.close(master)
        os.waitpid(pid, 0)
    return shown


LOOPS = {
    "torch": """
import sys, threading
import torch
from digits_data import load_digits

images, labels = load_digits(return_X_y=True)
images, labels = torch.tensor(images / 16.0, dtype=torch.float32), torch.tensor(labels)
model = torch.nn.Sequential(torch.nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def main():
    step = 0
    try:
        while step < 12:
            step += 1
            loss = torch.nn.functional.cross_entropy(model(images[:32]), labels[:32])
            if step == 7 and "nan-at-7" in sys.argv:
                loss = loss * float("nan")
            optimizer.zero_grad()
            try:
                loss.backward()
                optimizer.step()
            # SWALLOW
            finally:
                pass
            # LOG
    finally:
        print("closed after", step)
    print("went on to", step)


main()
""",
    "paddle": """
import sys
import paddle
from digits_data import load_digits

images, labels = load_digits(return_X_y=True)
images, labels = paddle.to_tensor((images / 16.0).astype("float32")), paddle.to_tensor(labels.astype("int64"))
model = paddle.nn.Sequential(paddle.nn.Linear(64, 10))
optimizer = paddle.optimizer.SGD(learning_rate=0.1, parameters=model.parameters())


def main():
    step = 0
    try:
        while step < 12:
            step += 1
            loss = paddle.nn.functional.cross_entropy(model(images[:32]), labels[:32])
            if step == 7 and "nan-at-7" in sys.argv:
                loss = loss * float("nan")
            optimizer.clear_grad()
            loss.backward()
            optimizer.step()
    finally:
        print("closed after", step)
    print("went on to", step)


main()
""",
}
THREAD = """
thread = threading.Thread(target=main)
thread.start()
thread.join()
"""
