"""`labbook record train.ipynb`: cells in the entry, the executed notebook next to it, and notebooks that are broken."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labbook.errors import UsageError
from labbook.execute_notebook import _Run
from labbook.model.run import CheckResult, Run
from labbook.model.run_files import FileUse
from labbook.record.notebook_command import _bounded, _pairs_out_of_order, as_command, printed_by_cells, text_of
from labbook.report.entry.cells_section import cells_section
from labbook.report.entry.section_limits import Limits, steps

pytestmark = pytest.mark.skipif(
    not (find_spec("nbclient") and find_spec("ipykernel")), reason="nbclient or ipykernel is not installed"
)

SECRET = "sk-proj-" + "4fT9xQ2mB7vL1cZ8rN3wK6yH5"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
CELLS = [
    f"LR = 0.5\nprint('token', '{SECRET[:8]}' + '{SECRET[8:]}')",
    "from IPython.display import Image, Markdown, display\n"
    f"display(Markdown('**b**'), Image(data={PNG!r}))\n{{'table': 1}}",
    "for _ in range(400):\n    print('x' * 2000)",
    "def f(x):\n    return 1 / x\nf(0)",
    "print('never')",
]


def notebook(*cells: str, counts: dict[int, int] | None = None, kernel: str = "python3", tags: tuple = ()) -> str:
    rows = [
        {
            "cell_type": "code", "id": f"c{number}", "metadata": {"tags": list(tags)}, "source": cell, "outputs": [],
            "execution_count": (counts or {}).get(number),
        }
        for number, cell in enumerate(cells)
    ]  # fmt: skip
    spec = {"kernelspec": {"name": kernel, "display_name": "Python", "language": "python"}}
    return json.dumps({"cells": rows, "metadata": spec, "nbformat": 4, "nbformat_minor": 5})


def saved_notebook() -> str:
    """The notebook of `recorded`; the cell that does not run has an output of an earlier session."""
    data = json.loads(notebook(*CELLS, counts={0: 5, 1: 2, 2: 7}))
    data["cells"][4]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "of an earlier session"}]
    return json.dumps(data)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory, make_book):
    """A notebook in a subfolder whose fourth cell fails, saved after its second cell had run before its first."""
    book = make_book(tmp_path_factory.mktemp("notebook") / "book")
    (book.folder / "study").mkdir()
    (book.folder / "study" / "train.ipynb").write_text(saved_notebook())
    done = book("record", "study/train.ipynb", check=False)
    return book, done


def test_the_entry_shows_cells_with_outputs_and_the_one_that_failed(recorded):
    book, done = recorded
    assert done.returncode == 1 and "{'table': 1}" in done.stdout and "ZeroDivisionError" in done.stderr
    assert "IPKernelApp" not in done.stdout + done.stderr, "a warning of the kernel"
    run, entry = book.run(), book.entry()
    assert "kernel.json" not in entry, "a file of the kernel is no input"
    assert run["status"] == "failed" and "ZeroDivisionError" in run["title"] and "train.ipynb" in run["title"]
    assert "params: {LR: 0.5}" in entry and "CellExecutionError" not in entry.partition("## Console")[0]
    section = entry.partition("## Cells")[2].partition("labbook:end cells")[0]
    assert "Cell 4 failed." in section and "cell 2 had run before cell 1" in section
    states = [line.split(" · ") for line in section.splitlines() if line.startswith("**Cell ")]
    assert [state[1] for state in states[:4]] == ["`In[1]`", "`In[2]`", "`In[3]`", "`In[4]`"]
    assert [state[1 + (len(state) > 3)] for state in states] == ["done"] * 3 + ["**failed**", "not run"]
    assert "/ipykernel_" not in entry.partition("## Console")[0] and "Raised at `In[4]:" in entry
    assert "{&#39;table&#39;: 1}" in section or "{'table': 1}" in section
    assert "**b**" in section and "object&gt;" not in section and "object>" not in section
    assert "of an earlier session" not in entry, "an output that was saved in the file"
    assert "ZeroDivisionError: division by zero" in section and "Further outputs of this cell" in section
    folder = (book.folder / run["entry"]).with_suffix("")
    assert (folder / "cell-002-1.png").read_bytes() == PNG and f"{run['id']}/cell-002-1.png" in section


def test_the_executed_notebook_is_committed_masked_and_limited(recorded, git):
    book, _ = recorded
    run = book.run()
    path = Path(run["entry"]).with_suffix("") / "executed.ipynb"
    content = git(book.folder, "show", f"HEAD:{path.as_posix()}")
    data = json.loads(content)
    assert [cell["execution_count"] for cell in data["cells"]] == [1, 2, 3, 4, None]
    assert SECRET not in content + book.entry() and "[REDACTED" in content
    assert len(content) < 600_000 and data["cells"][3]["outputs"][0]["ename"] == "ZeroDivisionError"
    # The user's own notebook is as it was.
    assert (book.folder / "study" / "train.ipynb").read_text() == saved_notebook()


def test_a_kernel_that_is_not_there(book):
    (book.folder / "train.ipynb").write_text(notebook("1", kernel="no-such-kernel"))
    done = book("record", "train.ipynb", check=False)
    assert done.returncode == 1 and "needs the kernel 'no-such-kernel'" in done.stderr
    assert "Traceback" not in done.stderr and book.run()["status"] == "failed"


def test_a_cell_that_kills_its_kernel_is_named_and_the_run_ends_by_the_same_signal(book):
    (book.folder / "dies.ipynb").write_text(notebook("1", "import os; os.kill(os.getpid(), 9)", "print('never')"))
    done = book("record", "dies.ipynb", check=False)
    run = book.run()
    assert "the kernel died in cell 2: SIGKILL" in done.stderr and "DeadKernelError" not in done.stderr
    assert (run["status"], run["signal"]) == ("killed", "SIGKILL") and "process_killed_by_os" in book.entry()


def test_a_command_of_a_cell_that_fails_without_a_word_is_named_by_its_cell(book):
    (book.folder / "silent.ipynb").write_text(notebook("1", "%%bash\nexit 3"))
    done = book("record", "silent.ipynb", check=False)
    assert "failed after" in done.stderr and "CalledProcessError: " in done.stderr and "at cell 2:1" in done.stderr
    assert "fits CalledProcessError" in done.stderr and "CellExecutionError at" not in done.stderr


@pytest.mark.parametrize(("value", "status"), [("3", 3), ("", 0), ("None", 0), ("no data", 1)])
def test_a_cell_that_exits_gives_the_status_of_a_script_that_does(value, status, capsys):
    import nbformat

    run = _Run(Path("a.ipynb"), nbformat.reads(notebook("1", "exit()"), as_version=4), None)
    run.rows[1]["state"] = "failed"
    assert run.end_of_program(value) == status
    assert f"cell 2 ended the notebook: exit status {status}" in capsys.readouterr().err


def test_the_output_of_a_cell_begins_on_a_line_of_its_own(tmp_path, capsys):
    import nbformat

    cells = [nbformat.v4.new_code_cell("1"), nbformat.v4.new_code_cell("2")]
    run = _Run(tmp_path / "a.ipynb", nbformat.v4.new_notebook(cells=cells), None)
    for index, text in ((0, "half"), (0, " a line"), (1, "whole\n"), (1, "next\n")):
        run.wants({"output_type": "stream", "name": "stdout", "text": text}, index, 0)
    assert capsys.readouterr().out == "half a line\nwhole\nnext\n"


@pytest.mark.slow
@pytest.mark.long
def test_an_interrupted_notebook_without_end(book):
    (book.folder / "endless.ipynb").write_text(
        notebook("print('begun', flush=True)", "while True:\n    print('x' * 99)")
    )
    command = [sys.executable, "-m", "labbook", "record", "endless.ipynb"]
    with subprocess.Popen(command, cwd=book.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        read = 0
        for line in child.stdout:
            read += len(line)
            if read > 300_000:
                break
        child.send_signal(signal.SIGINT)
        _, error = child.communicate(timeout=100)
    assert "ZMQError" not in error and "Traceback" not in error, "the kernel is not shut down under a running cell"
    run, entry = book.run(), book.entry()
    assert child.returncode in (-signal.SIGINT, 128 + signal.SIGINT) and run["status"] == "interrupted"
    assert "**running at the end**" in entry and "Further outputs of this cell" in entry


@pytest.mark.long
@pytest.mark.slow
def test_many_cells_and_an_expected_error(book):
    (book.folder / "many.ipynb").write_text(notebook("1 / 0", *["x = 1"] * 300, tags=("raises-exception",)))
    done = book("record", "many.ipynb", timeout=300)
    entry = book.entry()
    assert done.returncode == 0 and "further cells are in the executed notebook" in entry and len(entry) < 70_000
    assert "failed." not in entry.partition("## Cells")[2].partition("**Cell")[0]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"cells": 3, "nbformat": 4}',
        '{"cells": [5, {}], "nbformat": 4}',
        '{"cells": [], "nbformat": 3}',
        "[" * 100000,
        None,
    ],
)
def test_what_is_no_notebook_is_refused_before_anything_is_recorded(tmp_path, content):
    path = tmp_path / "train.ipynb"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UsageError) as refused:
        as_command([str(path)])
    assert str(path) in refused.value.message


def test_other_commands_stay_as_they_are(tmp_path):
    assert as_command(["python", "train.ipynb"]) == ("python", "train.ipynb")
    (tmp_path / "a.ipynb").write_text(notebook("1"))
    assert as_command([str(tmp_path / "a.ipynb")])[0] == sys.executable
    with pytest.raises(UsageError, match="no arguments"):
        as_command([str(tmp_path / "a.ipynb"), "--lr", "1"])


def test_what_cells_printed_under_another_command_is_read_from_the_notebook_that_it_wrote(tmp_path):
    outputs = [{"output_type": "stream", "text": ["val_acc: 0.5\n", "val_acc: 0.7\n"]}, {"output_type": "error"}]
    cells = [{"cell_type": "markdown"}, {"cell_type": "code", "outputs": outputs}]
    (tmp_path / "done.ipynb").write_text(json.dumps({"cells": cells}))
    (tmp_path / "torn.ipynb").write_text("{")
    files = [FileUse(name, mode, 100) for name, mode in (("in.ipynb", "read"), ("torn.ipynb", "written"))]
    files.append(FileUse("done.ipynb", "written", 100))
    run = Run("i", "finished", ("jupyter",), str(tmp_path), 0.0, captured={"command": {"kind": "notebook"}})
    assert printed_by_cells(replace(run, files=tuple(files))) == "val_acc: 0.5\nval_acc: 0.7\n"
    assert printed_by_cells(replace(run, files=tuple(files), captured={})) == ""


PAGE = """<style>td {}</style><table><tr><th>layer</th><th>n</th></tr>
<tr><td>conv &amp; bn</td> <td>3</td></tr></table>"""


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"text/plain": "<IPython.core.display.HTML object>", "text/html": PAGE}, "layer  n\nconv & bn  3\n"),
        ({"text/plain": "<pandas.io.formats.style.Styler at 0x7f12>", "text/html": [PAGE]}, "layer  n\nconv & bn  3\n"),
        ({"text/plain": "   layer  n\n0  conv   3", "text/html": PAGE}, "   layer  n\n0  conv   3\n"),
        ({"text/plain": "<a.Widget at 0x1>", "text/html": "<script>draw()</script>"}, "<a.Widget at 0x1>\n"),
        ({"text/plain": "<IPython.core.display.Markdown object>", "text/markdown": "*a*", "text/html": PAGE}, "*a*\n"),
    ],
)
def test_a_table_of_html_is_shown_as_text_where_its_plain_text_is_a_class(data, text):
    assert text_of({"output_type": "display_data", "data": data}) == text


@given(st.lists(st.none() | st.integers(1, 50), max_size=30))
def test_pairs_are_told_exactly_when_the_order_differs(counts):
    rows = [{"cell": number + 1, "before": count} for number, count in enumerate(counts)]
    ran = [count for count in counts if count is not None]
    pairs = _pairs_out_of_order(rows)
    assert bool(pairs) == (ran != sorted(ran))
    assert all(first > second and counts[first - 1] < counts[second - 1] for first, second in pairs)


@given(st.integers(1, 3000), st.integers(0, 2999), st.integers(0, 20_000))
def test_the_facts_of_any_notebook_are_small(total, failed, size):
    rows = [
        {"cell": n + 1, "state": "failed" if n == failed else "done", "source": "x" * size, "output": "y" * size}
        for n in range(total)
    ]
    kept = _bounded(rows)
    numbers = [row["cell"] for row in kept]
    assert numbers == sorted(set(numbers)) and total in numbers and (failed >= total or failed + 1 in numbers)
    assert len(json.dumps(kept)) < 350_000
    assert not size or failed >= total or next(row for row in kept if row["cell"] == failed + 1)["source"]


@given(st.integers(1, 200), st.integers(0, 199))
def test_of_many_cells_the_failed_one_and_the_last_are_shown(total, failed):
    rows = [
        {"cell": n + 1, "state": "failed" if n == failed else "done", "duration_s": 0.1, "source": "x\n" * 50,
         "output": "y\n" * 50, "cut": False, "figures": []}
        for n in range(total)
    ]  # fmt: skip
    run = Run("i", "failed", (), "/w", 0.0, captured={"notebook": {"cells": rows, "order": [], "file": ""}})
    for limits in (Limits(), steps()[-1]):
        shown = cells_section(run, limits)
        numbers = [cell["number"] for cell in shown["cells"]]
        assert numbers == sorted(numbers) and total in numbers and shown["more"] == total - len(numbers)
        assert failed >= total or failed + 1 in numbers
        assert not shown["is_running"] and shown["failed"] == (failed + 1 if failed < total else None)


def test_the_cell_in_which_a_check_first_failed_is_named():
    """Checks know the execution, `In[3]`; the entry counts the cells of the file."""
    rows = [
        {"cell": n + 2, "count": n + 1, "state": "done", "duration_s": 0.1, "source": "", "output": "", "cut": False,
         "figures": []}
        for n in range(4)
    ]  # fmt: skip

    def unhealthy(*places):
        checks = tuple(
            CheckResult(f"c{number}", "t", "e", "o", verdict, where=where)
            for number, (verdict, where) in enumerate(places)
        )
        run = Run("i", "finished", (), "/w", 0.0, captured={"notebook": {"cells": rows}}, checks=checks)
        return cells_section(run, Limits())["unhealthy"]

    third, fourth = {"file": "In[3]", "line": 2, "step": 9}, {"file": "In[4]", "line": 1, "step": 40}
    assert unhealthy(("fail", fourth), ("fail", third), ("warn", {"file": "In[1]"})) == {"cell": 4, "line": 2}
    assert unhealthy(("fail", {"file": "train.py", "line": 3}), ("fail", {"step": 3})) is None
