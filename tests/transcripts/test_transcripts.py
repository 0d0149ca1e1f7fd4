"""Golden transcripts: whole commands with everything that they print, as a user sees it.

A transcript `tests/transcripts/*.txt` is prose, commands (`$ ...`) and, indented by two spaces, what each prints;
`[exit status 1]` follows where a command fails. Its commands run in one new folder with the files of `programs/`.

`make transcripts` writes what the commands print now into the files; review the result as a diff. Values that vary from
run to run are placeholders: see `PLACEHOLDERS`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import forked_labbook

HERE = Path(__file__).parent
TRANSCRIPTS = [
    # The doctor imports both frameworks in new interpreters.
    pytest.param(path, marks=pytest.mark.long) if path.stem == "doctor" else path
    for path in sorted(HERE.glob("*.txt"))
]

LIBRARY_FRAME = re.compile(r'^ *File "\S*/site-packages/.*\n(?: {4}.*\n)*', re.MULTILINE)
TRACEBACK_MARKS = re.compile(r"^ *[\^~]+\n", re.MULTILINE)

PLACEHOLDERS = [
    (re.compile(r"\b\d{4}/\d\d/\d\d\b"), "<yyyy/mm/dd>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?Z?)?"), "<date>"),
    (re.compile(r"\b\d{4}-W\d\d\b"), "<week>"),
    (re.compile(r"(?<=committed as )[0-9a-f]{7,40}\b"), "<commit>"),
    (re.compile(r"(?<=\{commit: )[^,]*"), "<commit>"),
    (re.compile(r"\bv1:[0-9a-f]{16}\b"), "<fingerprint>"),
    (re.compile(r"\d+(?:\.\d+)?(?:e-?\d+)? (?:ms|s|min|h)\b(?: \d+ s\b)?"), "<duration>"),
    (re.compile(r"(?<=duration_s: )[\d.e-]+"), "<seconds>"),
    (re.compile(r"(?<=overhead_fraction: )[\d.e-]+"), "<fraction>"),
    (re.compile(r"\d+(?:\.\d+)? (?:[KMG]iB|B)\b"), "<size>"),
    (re.compile(r"(?<=^host: ).*", re.MULTILINE), "<host>"),
    (re.compile(r"(?<=^\| Overhead of the probe \|).*", re.MULTILINE), " <overhead> |"),
    (re.compile(r"^(ok|warn|fail) +gpu .*", re.MULTILINE), "<gpu>"),
    (re.compile(r"\b\d+\.\d+\.\d+(?:\+\w+)?"), "<version>"),
]
"""What varies between runs and machines, and the name that stands for it, in the order of replacement."""


def replace_varying(output: str, folder: Path) -> str:
    """Returns what a command printed with placeholders for everything that varies between runs and machines."""
    output = TRACEBACK_MARKS.sub("", LIBRARY_FRAME.sub("", output))
    for path, name in ((str(folder), "<folder>"), (os.environ["HOME"], "<home>"), (sys.executable, "<python>")):
        output = output.replace(path, name)
    for pattern, name in PLACEHOLDERS:
        output = pattern.sub(name, output)
    # Columns are as wide as their widest value, which may be one that varies.
    return "\n".join(re.sub(r"(?<=\S) {2,}", "  ", line).rstrip() for line in output.splitlines())


class Session:
    """Runs the commands of one transcript in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs: dict[str, str] = {}
        shutil.copytree(HERE / "programs", folder)
        self.environ = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "100",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
        }
        for setting in ("user.name Wei", "user.email wei@example.com", "init.defaultBranch main"):
            subprocess.run(["git", "config", "--global", *setting.split()], env=self.environ, check=True)

    def run(self, command: str) -> str:
        """Returns what a command line prints, indented, and how it ends where it fails.

        Commands of labbook, and the programs that they record, run in forks: see `forked_python`.
        """
        printed, status = "", 0
        labbook, _, rest = command.partition(" | ")
        if labbook.startswith("labbook "):
            words = ["-m", *shlex.split(labbook)]
            programs = [(self.folder / word).read_text() for word in words if word.endswith(".py")]
            imported = "labbook and torch" if "import torch" in "".join(programs) else "labbook"
            done = forked_labbook(imported).run(words, self.environ, self.folder, 100, joined=True)
            printed, status, command = done.stdout, done.returncode, rest
        if command:
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=self.folder,
                env=self.environ,
                input=printed,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=100,
                encoding="utf-8",
                errors="replace",
            )
            printed, status = done.stdout, done.returncode
        output = re.sub(r"\b\d{8}-\d{6}-[a-z0-9]{4}\b", self.name_run, printed)
        lines = replace_varying(output, self.folder).splitlines()
        lines += [f"[exit status {status}]"] if status else []
        return "\n".join(f"  {line}".rstrip() for line in lines)

    def name_run(self, run_id: re.Match[str]) -> str:
        """Numbers the ids of runs in the order in which they appear."""
        return self.runs.setdefault(run_id[0], f"<run-{len(self.runs) + 1}>")


def replay(transcript: str, session: Session) -> str:
    """Runs the commands of a transcript and returns the transcript with what they print now."""
    blocks: list[str] = []
    prose: list[str] = []
    for line in [*transcript.splitlines(), ""]:
        if line and not line.startswith(("$ ", "  ")):
            prose.append(line)
        elif prose:
            blocks.append("\n".join(prose))
            prose = []
        if line.startswith("$ "):
            blocks.append(f"{line}\n{session.run(line[2:])}".rstrip())
    return "\n\n".join(blocks) + "\n"


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_commands_print_what_their_transcript_shows(path, tmp_path, request):
    transcript = path.read_text(encoding="utf-8")
    printed = replay(transcript, Session(tmp_path / "digits"))
    if request.config.getoption("--update-transcripts"):
        path.write_text(printed, encoding="utf-8")
    else:
        assert printed == transcript, "if the change is meant: `make transcripts`, and review the diff"


def test_what_varies_is_replaced(tmp_path):
    output = (
        f"notes/runs/2026/11/24/x.md in {tmp_path}/book  committed as 679d3584c\n"
        "started: 2026-11-24T18:52:12Z\nfinished after 1.2 s: loss 1 → 0.333 in 2 steps\n"
        "ok      git      git version 2.39.5\nok    gpu            no NVIDIA device\n"
    )
    assert replace_varying(output, tmp_path).splitlines() == [
        "notes/runs/<yyyy/mm/dd>/x.md in <folder>/book  committed as <commit>",
        "started: <date>",
        "finished after <duration>: loss 1 → 0.333 in 2 steps",
        "ok  git  git version <version>",
        "<gpu>",
    ]


def test_frames_of_libraries_are_left_out(tmp_path):
    output = (
        "Traceback (most recent call last):\n"
        '  File "/book/crash.py", line 4, in <module>\n    model(x)\n    ^^^^^^^^\n'
        '  File "/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 134, in forward\n'
        "    return F.linear(input, self.weight, self.bias)\n           ^^^^^^^^\n"
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied\n"
    )
    assert replace_varying(output, tmp_path).splitlines() == [
        "Traceback (most recent call last):",
        '  File "/book/crash.py", line 4, in <module>',
        "    model(x)",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied",
    ]
