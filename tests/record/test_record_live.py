"""`with labbook.recording()` in plain processes, and the magics in a real kernel."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from labbook.notebook_magics import _Magics
from tests.conftest import PROGRAMS


def run_program(book, *words):
    shutil.copy(PROGRAMS / "live_recording.py", book.folder)
    return subprocess.run(
        [sys.executable, "live_recording.py", *words], cwd=book.folder, capture_output=True, text=True, timeout=200
    )


def runs(book):
    """The facts of all runs, oldest first."""
    found = [json.loads(path.read_text()) for path in (book.folder / "notes" / "runs").rglob("run.json")]
    return sorted(found, key=lambda run: run["started"])


def test_a_nested_recording_is_part_of_the_other(book):
    done = run_program(book, "nested")
    assert done.returncode == 0 and "this process is being recorded" in done.stderr
    [run] = runs(book)
    assert run["status"] == "finished" and run["console"]["text"].endswith("both\nstill recorded\n")


def test_an_exception_passes_and_another_recording_works_later(book):
    done = run_program(book, "raising")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("inside the block\n")
    first, second = runs(book)
    assert (first["status"], second["status"]) == ("failed", "finished")
    assert first["tags"] == ["first"] and first["script"] == "live_recording.py"
    [error] = first["exceptions"]
    assert (error["type"], error["message"]) == ("ValueError", "too wide")
    assert [series["name"] for series in first["series"]] == ["loss"] and not second["series"]
    assert [w for w, _ in first["probe"]["unobserved"] if "output" in w] == [
        "output of native code and of child processes"
    ]
    entries = [path.read_text() for path in sorted((book.folder / "notes" / "runs").rglob("*.md"))]
    assert "inside the block" in entries[0] and not any("between the blocks" in entry for entry in entries)
    assert "inside another block" in entries[1]
    last = [line for line in done.stderr.splitlines() if line][-1]
    assert last.strip().startswith("notes/runs/") and second["id"] in last


def test_a_killed_process_has_an_entry(book):
    assert run_program(book, "killed").returncode == -signal.SIGKILL
    limit = time.monotonic() + 60
    entries = []
    while not any("status: killed" in entry for entry in entries) and time.monotonic() < limit:
        time.sleep(0.2)
        entries = [path.read_text() for path in (book.folder / "notes" / "runs").rglob("*.md")]
    [entry] = entries
    assert "status: killed" in entry and "last words" in entry


def test_a_recorder_that_dies_changes_nothing_and_its_run_is_recovered(book):
    done = run_program(book, "orphaned")
    assert done.returncode == 0 and done.stdout == "to the recorder\nto nobody\n", done.stderr
    assert "labbook recover" in done.stderr
    book("recover")
    [run] = runs(book)
    assert run["status"] in ("lost", "finished", "killed")


def test_the_end_of_the_interpreter_ends_a_recording(book):
    done = run_program(book, "leaving")
    [run] = runs(book)
    assert done.returncode == 0 and done.stdout == "inside\n" and run["status"] == "finished"


def test_a_recorded_command_records_no_parts_of_itself(book):
    (book.folder / "inside.py").write_text("import labbook\nwith labbook.recording():\n    pass\n")
    done = book("record", "--", sys.executable, "inside.py")
    assert "is being recorded" in done.stderr and len(runs(book)) == 1


@pytest.mark.torch
@pytest.mark.long
def test_torch_that_is_imported_already_is_followed_and_unchanged(book):
    plain, recorded = (run_program(book, "late", how) for how in ("plain", "recorded"))
    assert recorded.returncode == 0, recorded.stderr
    assert plain.stdout == recorded.stdout
    first, second = runs(book)
    for run, steps in ((first, 12), (second, 7)):
        loss = next(series for series in run["series"] if series["name"] == "loss")
        assert loss["count"] == steps and run["frameworks"][0]["optimizers"] and not run["probe"]["errors"]


def test_a_wrong_magic_is_explained_in_the_language_of_the_notebook(book, monkeypatch):
    error = pytest.importorskip("IPython.core.error").UsageError
    (book.folder / "labbook.toml").write_text('language = "zh"\n', encoding="utf-8")
    monkeypatch.chdir(book.folder)
    with pytest.raises(error, match="没有正在进行的记录\n用 `%labbook start` 开始"):
        _Magics(None).labbook("stop")


def test_the_magics_in_a_kernel(book):
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    from tests.record.test_record_notebook import PNG

    cells = [
        "%load_ext labbook",
        "%%labbook -t one\nLR = 0.5\nprint('in a cell')\nLR",
        "%%labbook\n1 / 0",
        "%labbook start",
        "import labbook\nprint('in between')\nlabbook.log(step=1, loss=2.0)\nlabbook.log(step=2, loss=1.0)",
        f"from IPython.display import Image, display\ndisplay(Image(data={PNG!r}))\n{{'table': 1}}",
        "[].pop()",
        "print('and on')",
        "%labbook stop",
        "import sys\nassert 'labbook' not in sys.stdout.write.__module__\nlabbook.last()",
        "%labbook nonsense",
        "%labbook start -t killed",
        "'kept'",
        f"import os\nprint('last words')\ndisplay(Image(data={PNG!r}))\nos.kill(os.getpid(), 9)",
    ]
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in cells]
    client = nbclient.NotebookClient(
        notebook, timeout=200, allow_errors=True, resources={"metadata": {"path": str(book.folder)}}
    )
    with pytest.raises(nbclient.exceptions.DeadKernelError):
        client.execute(env={**os.environ})
    shown = [
        "".join(
            out.get("text") or (out.get("data") or {}).get("text/plain") or out.get("evalue") for out in cell.outputs
        )
        for cell in notebook.cells
    ]
    limit = time.monotonic() + 60  # the recorder notices the death
    while len(runs(book)) < 4 and time.monotonic() < limit:
        time.sleep(0.1)
    one, failed, several, killed = runs(book)
    assert "in a cell\n" in shown[1] and one["id"] in shown[1].splitlines()[-1] and "0.5" in shown[1]
    assert one["status"] == "finished" and one["tags"] == ["one"]
    assert [row["source"] for row in one["captured"]["notebook"]["cells"]] == [cells[1]]
    assert failed["status"] == "failed" and failed["exceptions"][0]["type"] == "ZeroDivisionError"
    assert "division by zero" in shown[2]
    assert [row["source"] for row in several["captured"]["notebook"]["cells"]][:2] == cells[3:5]
    assert several["series"][0]["name"] == "loss" and several["status"] == "finished"
    assert "in between" in next((book.folder / "notes").rglob(f"{several['id']}.md")).read_text()
    assert several["title"].endswith("(1 of 6 cells failed)") and "cells failed" not in one["title"]
    rows = several["captured"]["notebook"]["cells"]
    assert [row["source"] for row in rows] == cells[3:9]
    assert [row["state"] for row in rows] == ["done", "done", "done", "failed", "done", "done"]
    assert rows[1]["output"] == "in between\n" and rows[4]["output"] == "and on\n" and rows[1]["duration_s"] > 0
    assert "{'table': 1}" in rows[2]["output"] and rows[3]["output"] == "IndexError: pop from empty list\n"
    (figure,) = rows[2]["figures"]
    assert next((book.folder / "notes").rglob(figure)).read_bytes() == PNG
    table = notebook.cells[9].outputs[-1].data["text/html"]
    assert "<tr><th>metric</th><th>first</th><th>last</th><th>last step</th></tr><tr><td>loss</td>" in table
    assert notebook.cells[5].outputs[0].data["image/png"] and notebook.cells[5].outputs[1].data["text/plain"]
    assert one["captured"]["notebook"]["cells"][0]["output"] == "in a cell\n0.5\n"
    page = notebook.cells[9].outputs[0].data["text/html"]
    assert "data:image/svg+xml;base64," in page and "<td>loss</td>" in page and "<script" not in page
    assert several["id"] in shown[9] and "is not a command" in shown[10] and "Traceback" not in shown[10]
    rows = killed["captured"]["notebook"]["cells"]
    assert [row["source"] for row in rows] == cells[11:14]
    assert [row["state"] for row in rows] == ["done", "done", "running"] and rows[1]["output"] == "'kept'\n"
    assert "last words" in rows[2]["output"] and len(rows[2]["figures"]) == 1


@pytest.mark.parametrize("front_end", ["jupyterlab", "vscode", "colab"])
def test_a_front_end_shows_a_link_and_what_it_runs_itself_is_not_recorded(book, front_end):
    """VS Code runs code without history between the cells; the shell of Colab is a subclass and names no notebook."""
    pytest.importorskip("ipykernel")
    from jupyter_client.manager import start_new_kernel

    folder = book.folder / "my study"
    folder.mkdir()
    (folder / "one.ipynb").write_text("{}")
    named = {"JPY_SESSION_NAME": str(folder / "one.ipynb")} if front_end == "jupyterlab" else {}
    manager, client = start_new_kernel(cwd=str(book.folder), env={**os.environ, **named})
    outputs = []

    def show(message):
        outputs.append(message["content"])

    def run(code, **how):
        outputs.clear()
        reply = client.execute_interactive(code, timeout=100, output_hook=show, allow_stdin=False, **how)
        return reply["content"]["status"]

    try:
        if front_end == "vscode":
            run(f"__vsc_ipynb_file__ = {str(folder / 'one.ipynb')!r}", store_history=False)
        if front_end == "colab":
            run("s = get_ipython(); s.__class__ = type('Shell', (type(s),), {'system': lambda *words: None})")
        run("%load_ext labbook")
        run("%labbook start")
        run("print('of a cell')")
        run("import time; time.sleep(1.2); print('list of variables')", store_history=False)
        assert run("%labbook start") == "error"
        run("1 / 0")
        run("%labbook stop")
        link = [part["data"] for part in outputs if "data" in part]
        text = "".join(part["text"] for part in outputs if "text" in part)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    (done,) = runs(book)
    rows = done["captured"]["notebook"]["cells"]
    assert "list of variables" not in json.dumps(done) and "list of variables" not in done["console"]["text"]
    cell = next(row for row in rows if row["output"] == "of a cell\n")
    assert cell["duration_s"] < 1 and [row["state"] for row in rows][1] == "done" and done["status"] == "failed"
    if front_end == "colab":
        assert not link and f"{done['id']}.md" in text
    else:
        assert f"{done['id']}.md" not in text and f"{done['id']}.md" in link[0]["text/plain"]
        target = link[0]["text/html"].partition('href="')[2].partition('"')[0]
        assert (folder / target).is_file() and done["argv"][-1] == os.path.join("my study", "one.ipynb")
