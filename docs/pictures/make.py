"""Makes the pictures of README and docs from real runs in a temporary notebook: `make pictures`.

Records `project/train.py` several times in a terminal of its own, once with English and once with Chinese settings,
and writes to `docs/pages/images/`, for each language:

- `failure`: the message of a failed run, with the fix of an earlier one;
- `tour`: an animation of record, finding, fix and search;
- `run` and `runs`: a run's page and the table of runs on the team site;

and in English only `notebook`, `reproduce` and `import`, the terminal at these commands, `report`, the page of a week,
and `configuration`, the check of a configuration in an entry. Those of public projects are made by `real_projects.py`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from browser import screenshots
from terminal import Screen, run_in_terminal
from terminal_svg import Line, animation, still

HERE = Path(__file__).resolve().parent
IMAGES = HERE.parent / "pages" / "images"
COLUMNS, ROWS = 112, 24
_TITLES = {
    "en": ("A failed run: labbook names the cause, the line, the sizes and the fix", "From a NaN loss to a known fix"),
    "zh": ("运行失败：labbook 指出原因、代码行、尺寸和解决办法", "从损失变成 NaN 到找到解决办法"),
}
_CELLS = (
    """import torch

torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)""",
    """x = torch.randn(256, 8)
y = x.sum(1, keepdim=True)
for step in range(100):
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()""",
)
_QUESTION = {"en": "loss nan", "zh": "损失 NaN"}


class Notebook:
    """A temporary project with a notebook, in which commands run in a terminal.

    Args:
        folder: Where it is made; named like the project, since pages show it.
        language: "en" or "zh".
        source: Folder of the project.
    """

    def __init__(self, folder: Path, language: str, source: Path = HERE / "project") -> None:
        self.folder, self.language = folder, language
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("LABBOOK", "GIT_"))},
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "XDG_DATA_HOME": str(folder.parent / "data"),
            "XDG_CACHE_HOME": str(folder.parent / "cache"),
            "LABBOOK_LANGUAGE": language,
            "LANG": "zh_CN.UTF-8" if language == "zh" else "C.UTF-8",
            "LC_ALL": "",
            "TERM": "xterm-256color",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self.environment.pop("NO_COLOR", None)
        shutil.copytree(source, folder)
        for command in (
            ["git", "init", "-q", "-b", "main"],
            ["git", "config", "user.name", "Lin"],
            ["git", "config", "user.email", "lin@example.org"],
            ["labbook", "init"],
            ["git", "add", "-A"],
            ["git", "commit", "-qm", "Begin"],
        ):
            self.run(command)

    def run(self, command: list[str]) -> None:
        """Runs a command that no picture shows."""
        subprocess.run(command, cwd=self.folder, env=self.environment, check=True, capture_output=True)

    def show(self, *command: str, status: int = 0) -> Screen:
        """The screen after a command.

        Raises:
            SystemExit: It ended with another status than `status`.
        """
        screen, ended = run_in_terminal(command, self.folder, self.environment, COLUMNS)
        print(f"  {' '.join(command)}", flush=True)
        if ended != status:
            raise SystemExit("\n".join([*screen.lines, f"make pictures: {command} ended with {ended}, not {status}"]))
        return screen


def main() -> None:
    """Makes all pictures, or those of the languages that are named."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    for language in sys.argv[1:] or list(_TITLES):
        with tempfile.TemporaryDirectory(prefix="labbook-") as temporary:
            _make(Notebook(Path(temporary) / "digits", language), "" if language == "en" else f".{language}")


def _make(notebook: Notebook, suffix: str) -> None:
    failure, tour = _TITLES[notebook.language]
    train = ["labbook", "record", "--", "python", "train.py"]
    scenes = [
        ([*train, "--lr", "5"], notebook.show(*train, "--lr", "5")),
        ([*train, "--lr", "0.1"], notebook.show(*train, "--lr", "0.1")),
        (["labbook", "fix", "last", "--yes"], notebook.show("labbook", "fix", "last", "--yes")),
    ]
    search = ["labbook", "search", "-n", "4", _QUESTION[notebook.language]]
    scenes.append((search, notebook.show(*search)))
    (IMAGES / f"tour{suffix}.svg").write_text(animation(_played(scenes), COLUMNS, ROWS, tour), encoding="utf-8")

    first = next(iter(sorted(notebook.folder.glob("notes/runs/*/*/*/*.md"))))
    notebook.show(*train, "--hidden", "32", status=1)
    notebook.show(*train)
    notebook.show("labbook", "fix", "last", "--yes")
    again = notebook.show(*train, "--hidden", "48", status=1)
    lines = [_prompt([*train, "--hidden", "48"], 0.0), *(Line(text) for text in _without_frames(again.lines))]
    (IMAGES / f"failure{suffix}.svg").write_text(still(lines, COLUMNS, failure), encoding="utf-8")

    if not suffix:
        _make_english(notebook)
    notebook.run(["labbook", "site", "build"])
    page = first.relative_to(notebook.folder / "notes").with_suffix(".html").as_posix()
    for path, name, height in ((page, "run", 1000), ("runs/index.html", "runs", 560)):
        wanted = {path: IMAGES / f"{name}{suffix}.png"}
        screenshots(notebook.folder / "site", wanted, (1280, height), notebook.language)
    if not suffix:
        _configuration_picture(notebook)
        report = next(iter(notebook.folder.glob("notes/reports/*.md"))).stem
        screenshots(notebook.folder / "site", {f"reports/{report}.html": IMAGES / "report.png"}, (1280, 1100), "en")


def _make_english(notebook: Notebook) -> None:
    """Makes the pictures of pages that are in English only."""
    cells = [
        {"cell_type": "code", "id": f"cell{n}", "metadata": {}, "outputs": [], "execution_count": None, "source": code}
        for n, code in enumerate(_CELLS)
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    page = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (notebook.folder / "train.ipynb").write_text(json.dumps(page), encoding="utf-8")
    recorded = ["labbook", "record", "train.ipynb"]
    still_picture("notebook", [(recorded, notebook.show(*recorded))], "A notebook is executed and recorded")
    again = ["labbook", "reproduce", "last"]
    scene = (again, notebook.show(*again))
    still_picture("reproduce", [scene], "A run is run again, and the result is the same")
    notebook.run(["labbook", "export", "last", "--to", "tensorboard", "-o", "logs/baseline"])
    imported, listed = ["labbook", "import", "tensorboard", "logs"], ["labbook", "list", "-n", "3"]
    scenes = [(imported, notebook.show(*imported)), (listed, notebook.show(*listed))]
    still_picture("import", scenes, "A TensorBoard log becomes an entry")
    notebook.run(["labbook", "report"])
    words = ["--config", "config.yaml", "--lr", "0.1", "--lr", "0.05", "--warmup", "3"]
    notebook.run(["labbook", "record", "--", "python", "configured.py", *words])


def _configuration_picture(notebook: Notebook) -> None:
    """Takes the picture of the check of the configuration in the entry that was written last."""
    last = max(notebook.folder.glob("notes/runs/*/*/*/*.md"))
    page = last.relative_to(notebook.folder / "notes").with_suffix(".html").as_posix()
    wanted = {page: IMAGES / "configuration.png"}
    screenshots(notebook.folder / "site", wanted, (1280, 400), "en", start="Check of the configuration")


def still_picture(name: str, scenes: list[tuple[list[str], Screen]], title: str) -> None:
    """Writes the picture `name` of commands and what the terminal showed at each."""
    lines = [line for command, screen in scenes for line in (_prompt(command, 0.0), *map(Line, screen.lines))]
    (IMAGES / f"{name}.svg").write_text(still(lines, COLUMNS, title), encoding="utf-8")


def _played(scenes: list[tuple[list[str], Screen]]) -> list[Line]:
    """The lines of all commands on one clock; waits are shortened to what a viewer bears."""
    lines: list[Line] = []
    clock = 0.4
    for command, screen in scenes:
        if lines:
            clock += 2.2  # to read the answer before the next command
        lines.append(_prompt(command, clock, 1.3))
        clock += 1.7
        former = 0.0
        for text, at in zip(screen.lines, screen.times, strict=True):
            clock += min(0.5, max(0.0, at - former))
            former = at
            lines.append(Line(text, clock))
    return lines


def _prompt(command: list[str], at: float, typed: float = 0.0) -> Line:
    shown = " ".join(f'"{word}"' if " " in word else word for word in command)
    return Line(f"\x1b[32m$\x1b[0m \x1b[1m{shown}\x1b[0m", at, typed)


def _without_frames(lines: list[str]) -> list[str]:
    """A traceback without its frames inside of libraries; the picture says how many lines that are."""
    start = next((n for n, line in enumerate(lines) if line.startswith("Traceback")), None)
    if start is None:
        return lines
    end = next(n for n in range(start + 1, len(lines)) if not lines[n].startswith(" "))
    return [*lines[: start + 1], f"\x1b[2m  ... {end - start - 1} lines ...\x1b[0m", *lines[end:]]


if __name__ == "__main__":
    main()
