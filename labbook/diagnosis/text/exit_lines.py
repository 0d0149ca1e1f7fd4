"""Recognises lines outside of exceptions: warnings, errors of native code, and how a process ended.

The patterns are in `exit_lines.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from labbook.diagnosis.text.log_lines import LogLine
from labbook.diagnosis.toml_data import compile_patterns, fits_any, read_toml
from labbook.model.evidence import ProcessEnd

_RE = compile_patterns(__file__)

_TABLES = read_toml(Path(__file__).with_name("exit_signals.toml"))
_SIGNALS: dict[int, str] = {int(number): name for number, name in _TABLES["numbers"].items()}
_WINDOWS: dict[int, str] = {int(status, 16): name for status, name in _TABLES["windows"].items()}
_DEATHS: Mapping[str, str] = _TABLES["deaths"]
_DEATH = re.compile(
    _TABLES["before"] + "|".join(f"(?P<{name}>{words})" for name, words in _DEATHS.items()) + _TABLES["after"]
)


def is_exit_line(text: str) -> bool:
    """Whether a line reports how a process ended."""
    return bool(_DEATH.match(text) or _RE["srun"].search(text) or ("exit" in text and _RE["code"].search(text)))


def prints_nonfinite(text: str) -> bool:
    """Whether a line prints a loss or norm that is not finite.

    A loss scaler skips steps in which the gradient norm overflows; a loss that is NaN counts, skipped or not.
    """
    found = _RE["nonfinite"].findall(_RE["best_so_far"].sub("", text))
    if _RE["skipped"].search(text):
        found = [one for one in found if not one.lower().startswith("norm")]
    return bool(found)


def is_progress_bar(text: str) -> bool:
    """Whether a line is a progress bar."""
    return bool(_RE["bar"].search(text))


def count_framework_words(text: str) -> dict[str, int]:
    """How often a text uses words of each framework."""
    return {name: sum(1 for _ in _RE[name].finditer(text)) for name in ("torch", "paddle")}


def line_kind(line: LogLine) -> str:
    """Kind of a line that may report something, "warning" or "output"; "" for any other."""
    text = line.text
    if "NCCL INFO" in text:
        return ""  # what it tries in turn, and does without
    if fits_any(_RE, text, "glog_death"):
        return "output"
    if line.level in ("WARNING", "WARN") or fits_any(_RE, text, "warning", "warned"):
        return "warning"
    if is_exit_line(text) or fits_any(_RE, text, "nonfinite", "signal", "oom_kill"):
        return "output"
    if line.level in ("INFO", "DEBUG", "NOTICE"):
        return ""
    return "output" if line.level or fits_any(_RE, text, "error", "error_said", "time_limit", "kernel") else ""


def strip_warning_place(text: str) -> str:
    """The class and words of a warning, without the file and line that printed it."""
    found = _RE["warning"].match(text)
    return f"{found['class']}: {found['text']}" if found else text.strip()


def parse_ending(lines: Iterable[str]) -> ProcessEnd:
    """How a process ended, as far as its lines outside of exceptions and messages of launchers report it."""
    code: int | None = None
    signal = ""
    facts: dict[str, Any] = {}
    for text in lines:
        death, signalled, number = _DEATH.match(text), _RE["signal"].search(text), _RE["code"].search(text)
        srun, of_child = _RE["srun"].search(text), fits_any(_RE, text, "child")
        if death and not signal:
            signal = next(name for name, words in death.groupdict().items() if words)
        if signalled and not signal and not of_child:
            name, value = next((pair for pair in signalled.groupdict().items() if pair[1]), ("name", ""))
            signal = value if name.startswith("name") else _SIGNALS.get(int(value), "")
        if srun:
            named = (name for name, words in _DEATHS.items() if re.fullmatch(words, srun["what"]))
            signal = signal or ("SIGKILL" if srun["what"] == "Out Of Memory" else next(named, ""))
            code = int(srun["code"]) if srun["code"] and code is None else code
        if number and not of_child:
            # A status of 0 may be followed by that of another process.
            code = code or _value(number["code"])
        for fact in ("oom_kill", "time_limit"):
            if fits_any(_RE, text, fact):
                facts.setdefault(fact, text.strip()[:300])
        if _RE["core"].search(text):
            facts["core_dump"] = True
    signal = signal or _signal_of(code)
    if "oom_kill" in facts and not signal and not code:
        signal = "SIGKILL"
    return ProcessEnd(code, signal, facts)


def _value(text: str) -> int:
    # People who copy a status by hand write O for 0.
    text = text.lower().replace("o", "0")
    text = re.sub(r"(?<=^0xc0)0+(?=0{5}[\da-f]$)", "", text)
    return int(text, 16) if "0x" in text else int(text)


def _signal_of(code: int | None) -> str:
    """The signal of an exit status: -9 of Python, 137 of a shell, a Windows status."""
    if code is None:
        return ""
    if not -256 < code < 256:
        return _WINDOWS.get(code & 0xFFFFFFFF, "")
    return _SIGNALS.get(-code if code < 0 else code - 128, "")
