"""The notebooks whose sites the browser opens: one recorded for real, with hostile runs, and one of ten thousand."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from site_settings import write_site_settings

ROOT = Path(__file__).resolve().parents[2]

EVIL = (
    '<script>window.pwned=1</script><img src=x onerror=window.pwned=2>"><svg onload=window.pwned=3> '
    "[x](javascript:window.pwned=4) {{ 7*7 }} {% raise %} </title></script><!-- `a` **b** | c"
)
"""Text that acts wherever it is not escaped; what it would do can be read from `window.pwned`."""

EVIL_NAME = "<img src=x onerror=window.pwned=5>.py"

TRAIN = """
import argparse, math

options = argparse.ArgumentParser()
options.add_argument("--lr", type=float, default=0.1)
options.add_argument("--fail", default="")
lr, fail = (chosen := options.parse_args()).lr, chosen.fail
for step in range(1, 121):
    loss = 2.3 * math.exp(-step * lr / 4) + 0.05 * math.sin(step) + 0.2
    if lr > 1 and step > 80:
        loss = float("nan")
    print(f"step {step} loss: {loss:.4f} val_accuracy: {1 - loss / 3:.4f}", flush=True)
if lr > 1:
    raise RuntimeError("Function 'LogBackward0' returned nan values in its 0th output.")
if fail:
    raise ValueError(fail)
"""

_DAY = "2026/11/20"


def small(folder: Path) -> None:
    """Runs recorded by `labbook record` (finished, NaN, cured, hostile), entries in Chinese, reports and notes."""
    from labbook.store.text import escape

    labbook = _notebook(folder)
    (folder / "train.py").write_text(TRAIN)
    (folder / EVIL_NAME).write_text(TRAIN)
    labbook("record", "--", sys.executable, "train.py", "--lr", "0.1")
    labbook("record", "--", sys.executable, "train.py", "--lr", "3.0", fails=True)
    labbook("record", "--", sys.executable, "train.py", "--lr", "0.2")
    labbook("fix", "last")
    labbook("record", "--", sys.executable, "train.py", "--fail", EVIL, fails=True)
    labbook(
        "record", "--tag", EVIL, "--", sys.executable, EVIL_NAME, "--fail", f"CUDA out of memory {EVIL}", fails=True
    )
    notes = folder / "notes"
    # Two runs with a framework, as they stand in the notebook of this repository.
    shutil.copytree(ROOT / "notes", notes, dirs_exist_ok=True)
    _write(
        notes / "runs" / _DAY / "20261120-100000-zh01.md",
        _meta("20261120-100000-zh01", "训练.py：显存不足", "failed", symptoms=["cuda_out_of_memory"], author="张敏")
        + "\n# 训练.py：显存不足\n\n## 目标\n\n批大小 256\n\n## 观察\n\n显存不足，批大小改成 32 就能训练。\n",
    )
    _write(
        notes / "runs" / _DAY / "20261120-110000-evil.md",
        _meta("20261120-110000-evil", EVIL, "failed", symptoms=[EVIL], author=EVIL, tags=[EVIL], experiment=EVIL)
        + f"\n# {escape.inline(EVIL)}\n\n{escape.code_span(EVIL)}\n\n## Observations\n\n{escape.inline(EVIL)}\n",
    )
    _write(
        notes / "runs" / _DAY / "20261120-115000-nets.md",
        _meta("20261120-115000-nets", "a run with a diagram", "finished")
        + "\n# a run with a diagram\n\n## Model\n\n"
        + "[![diagram](20261120-115000-nets/model.svg)](20261120-115000-nets/model.svg)\n",
    )
    _write(notes / "runs" / _DAY / "20261120-115000-nets" / "model.svg", _diagram())
    _write(notes / "runs" / _DAY / "20261120-120000-text.md", "---\nid: [\n---\n# broken\n")
    _write(notes / "ideas.md", "# Ideas for the next quarter\n\nTry cosine schedules and a smaller warm-up.\n")


def _diagram() -> str:
    from labbook.model.run import Run
    from labbook.report.model_svg import model_svg
    from labbook.store.text.templates import words

    plain = {"last": "", "count": 1, "output": "8x4", "parameters": 20, "trainable": 20, "inside": 0, "total": 1}
    plain |= {"gradient": [0.5], "states": []}
    rows = [{**plain, "depth": 0, "name": "", "type": "Net", "history": []}]
    rows += [
        {**plain, "depth": 1, "name": name, "type": "Linear", "history": [[1, 0.5, 0.6], [9, 0.01, 0.2]]}
        for name in ("first", "second")
    ]
    run = Run("i", "finished", ("python",), "/", 0.0, title="t", health={"models": [{"root": "Net", "tree": rows}]})
    return model_svg(run, words("en")["diagram"])


def large(folder: Path, count: int) -> None:
    """Many invented runs; only the pages of the newest day are rendered, the tables and the search know all."""
    sys.path.insert(0, str(ROOT))
    from benchmarks._synthetic_notes import write_notes

    _notebook(folder)
    write_notes(folder, count, now=1_795_300_000.0, gap_s=max(1500.0, 2_250_000 / count))  # over two months
    newest = max((folder / "notes" / "runs").glob("*/*/*")).relative_to(folder / "notes").as_posix()
    with (folder / "mkdocs.yml").open("a") as settings:
        settings.write(f"exclude_docs: |\n  /runs/*/*/*/*.md\n  !/{newest}/*.md\nvalidation:\n  links:\n")
        settings.write("    not_found: ignore\n")


def _notebook(folder: Path):
    """A notebook with the settings of a new one, and its command line."""
    from tests.conftest import Labbook

    folder.mkdir(parents=True)
    (folder / "labbook.toml").write_text('title = "Team"\nlanguage = "en"\nauthor = "Wei"\ncommit = "off"\n')
    write_site_settings(folder)
    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LABBOOK_")}
    environment |= {"HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": str(home / ".gitconfig")}

    def labbook(*arguments: str, fails: bool | None = False) -> str:
        done = Labbook(folder)(*arguments, check=False, env=environment)
        if fails is not None:
            assert (done.returncode != 0) == fails, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return labbook


def _meta(run_id: str, title: str, status: str, **more: object) -> str:
    from labbook.store.text.frontmatter import emit

    started = f"{run_id[:4]}-{run_id[4:6]}-{run_id[6:8]}T{run_id[9:11]}:{run_id[11:13]}:{run_id[13:15]}Z"
    return emit({"id": run_id, "title": title, "status": status, "started": started, "duration_s": 61.5, **more})


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
