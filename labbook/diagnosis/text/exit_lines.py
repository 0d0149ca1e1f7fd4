"""Recognises lines outside of exceptions: warnings, errors of native code, and how a process ended.

The patterns of error lines are in `error_lines.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from labbook.diagnosis.text.log_lines import LogLine
from labbook.diagnosis.toml_data import compile_patterns
from labbook.model.evidence import Ending

_SIGNALS = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
    9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM",
    24: "SIGXCPU", 25: "SIGXFSZ",
}  # fmt: skip
_WINDOWS = {0xC0000005: "SIGSEGV", 0xC0000409: "SIGABRT", 0xC00000FD: "SIGSEGV", 0xC000001D: "SIGILL"}
"""Windows status codes that correspond to a signal. Source: ntstatus.h."""

_DEATHS = {
    "SIGKILL": r"[Kk]illed|KILLED|已杀死|已终止 \(Killed\)",
    "SIGSEGV": r"[Ss]egmentation fault|段错误|Access violation",
    "SIGBUS": r"[Bb]us error|总线错误",
    "SIGABRT": r"[Aa]borted|[Aa]bort trap: 6|[Aa]bort|已放弃|已中止|已终止",
    "SIGILL": r"[Ii]llegal instruction|非法指令",
    "SIGFPE": r"[Ff]loating[ -]point exception|浮点数?例外",
    "SIGTERM": r"Terminated",
    "SIGTRAP": r"Trace/breakpoint trap",
}
_DUMPED = r"(?:\s*[(（](?:core dumped|核心已转储|吐核|核心转储)[)）])?"
_SHELL = (
    r"(?:[\w./~-]{1,200}: (?:line |行 ?|第 ?)\d+[:：行]*\s+\d+ |(?:zsh|bash|fish)(?:: line \d+)?: (?:\d+ )?"
    r"|\[\d+\]\s+[+-]?\s*\d* ?)?"
)
_DEATH = re.compile(
    rf"^\s*(?:{_SHELL})(?:" + "|".join(f"(?P<{name}>{words})" for name, words in _DEATHS.items()) + rf"){_DUMPED}"
    r"(?:[.!:：！。]?\s*$|\s{2,}\S|\s+(?:sudo |nohup )?(?:python|torchrun|bash|sh|\./|CUDA_|\$[{(\w])|[:：] \d+)"
)
_SRUN = re.compile(
    r"(?:srun|slurmstepd|sbatch)[^:]{0,40}: (?:error: )?[^:]{1,80}: tasks? [\d,\[\]-]+: (?P<what>Killed"
    r"|Out Of Memory|"
    r"Segmentation fault|Bus error|Aborted|Terminated|Exited with exit code (?P<code>\d+))"
)
_CODE = re.compile(
    r"(?:Process finished with exit code|exit(?:ed|s|ing)?(?: with)?(?: non-?zero)?(?: a)? ?(?:return |error )?"
    r"(?:code|status)|exitcode|return ?code|Exit Code"
    r"|退出代码为?|退出码|(?:返回)?错误码|返回码)\s*(?:is|of|was|[=:：])?\s*[(<]?"
    r"(?P<code>-?\d{1,10}|-?[0Oo]x[0-9a-fA-F]{1,9})\b",
    re.IGNORECASE,
)
_SIGNAL = re.compile(
    r"(?:terminated|killed|died|interrupted|crashed|exited|stopped|failed|received|caught|due to|with"
    r"|by)\b[^.\n]{0,60}?"
    r"(?:\bsignal:? ?(?P<number>\d{1,2})\b|<Signals\.(?P<name_a>SIG[A-Z]{2,6})|\((?P<name_b>SIG[A-Z]{2,6})\)"
    r"|\bsignal:? ?(?P<name_c>SIG[A-Z]{2,6})\b|signal (?P<number_b>\d{1,2}) )"
    r"|^\s*\[SignalInfo: \*{3} (?P<name_d>SIG[A-Z]{2,6})|\bSignal (?P<number_c>\d{1,2}) \(SIG"
    r"|^(?:\*{3} )?(?P<name_e>SIG[A-Z]{2,6}) \(|\bError: signal:? ?(?P<number_d>\d{1,2})\b"
)
_PATTERNS = compile_patterns(Path(__file__).with_name("error_lines.toml"))
_OOM_KILL, _TIME_LIMIT = _PATTERNS["oom_kill"], _PATTERNS["time_limit"]
_CHILD = re.compile(r"DataLoader|data loader")
"""A dying DataLoader worker is not the process that ends."""
_KERNEL = re.compile(
    r"[Kk]ernel (?:appears to have )?(?:died|crashed)|[Ss]ession crashed|内核(?:已经?)?(?:崩溃|挂掉|死亡)"
)
_CORE = re.compile(r"core dumped|核心已转储|吐核")

_GLOG_DEATH = re.compile(r"^\s*(?:\*{3} )?(?:SIG[A-Z]{2,6} \(@0x|Aborted at \d+ \(unix)")
"""glog reports a crash line by line, as warnings."""
_WARNING = re.compile(
    r"^\s*(?:(?P<where>(?:[A-Za-z]:)?[^\s:][^:\n]{0,400}):\d+: )?(?P<class>\w*Warning)\s*[:：] ?(?P<text>.*)$"
)
_WARNED = re.compile(
    r"^\s*(?:\[?(?:WARNING|Warning|WARN|warning|警告)\]?\s*[:：|-]|(?:\S{1,200}: )?\[W(?:\d{4} | \w)|W\d{4} \d\d:)"
)
_BAR = re.compile(
    r"\d{1,3}%\s?(?:\||\[|[█▏▎▍▌▋▊▉])|[━█#=]{8,}.{0,40}\d+(?:\.\d+)?\s?(?:%|it/s|MB/s|kB/s)|\bit/s\b|\bs/it\b"
)
_NONFINITE = re.compile(
    r"(?:loss|nll|perplexity|ppl|cost|norm"
    r"|损失)[\w@/.%\])-]{0,40}['\"]?\s{0,3}[:=：]?\s{0,3}[\[(]?(?:tensor\()?['\"]?[-+]?(?:nan|inf(?:inity)?)\b"
    r"|\btensor\(\[{0,4}\s{0,3}[-+]?(?:nan|inf)\b\s{0,2},\s{0,3}[-+]?(?:nan|inf)\b"
    r"|\b(?:loss|损失)\s+(?:is|became|becomes|为|变成|变为|是|=)\s*(?:nan|inf)",
    re.IGNORECASE,
)
_BEST_SO_FAR = re.compile(
    r"\b(?:best|lowest|min)[_ ](?:\w{1,20}[_ ])?(?:loss|cost|ppl|nll|perplexity)\W{1,4}inf", re.IGNORECASE
)
"""The best loss before the first evaluation is infinite."""
_SKIPPED = re.compile(r"\bskip(?:s|ped|ping)?\b|跳过", re.IGNORECASE)
_ERROR_SAID = re.compile(
    r"^\s*\[?(?:ERROR|FATAL|CRITICAL|Error|Fatal|error|fatal error|fatal)\]?\s*[:：]\s*(?!0\b"
    r"|\d+(?:\.\d+)?(?:e-?\d+)?\s*(?:$|[,|%;]))\S"
    r"|\b(?:error|ERROR)[:：] (?![\d.]+\b|None\b|null\b|nan\b)[A-Za-z'\"<(`]"
)


def is_exit_line(text: str) -> bool:
    """Whether a line reports how a process ended."""
    return bool(_DEATH.match(text) or _SRUN.search(text) or ("exit" in text and _CODE.search(text)))


def prints_nonfinite(text: str) -> bool:
    """Whether a line prints a loss or norm that is not finite.

    A loss scaler skips steps in which the gradient norm overflows; a loss that is NaN counts, skipped or not.
    """
    found = _NONFINITE.findall(_BEST_SO_FAR.sub("", text))
    if _SKIPPED.search(text):
        found = [one for one in found if not one.lower().startswith("norm")]
    return bool(found)


def is_progress_bar(text: str) -> bool:
    """Whether a line is a progress bar."""
    return bool(_BAR.search(text))


def count_framework_words(text: str) -> dict[str, int]:
    """How often a text uses words of each framework."""
    return {name: sum(1 for _ in _PATTERNS[name].finditer(text)) for name in ("torch", "paddle")}


def line_kind(line: LogLine) -> str:
    """Kind of a line that may report something, "warning" or "output"; "" for any other."""
    text = line.text
    if "NCCL INFO" in text:
        return ""  # what it tries in turn, and does without
    if _GLOG_DEATH.search(text):
        return "output"
    if line.level == "WARNING" or line.level == "WARN" or _WARNING.match(text) or _WARNED.match(text):
        return "warning"
    if _NONFINITE.search(text) or is_exit_line(text) or _SIGNAL.search(text) or _OOM_KILL.search(text):
        return "output"
    if line.level in ("INFO", "DEBUG", "NOTICE"):
        return ""
    if (
        line.level in ("ERROR", "FATAL", "CRITICAL", "EXCEPTION")
        or _PATTERNS["error"].search(text)
        or _ERROR_SAID.search(text)
    ):
        return "output"
    return "output" if _TIME_LIMIT.search(text) or _KERNEL.search(text) else ""


def strip_warning_place(text: str) -> str:
    """The class and words of a warning, without the file and line that printed it."""
    found = _WARNING.match(text)
    return f"{found['class']}: {found['text']}" if found else text.strip()


def parse_ending(lines: Iterable[str]) -> Ending:
    """How a process ended, as far as its lines report it."""
    code: int | None = None
    signal = ""
    facts: dict[str, Any] = {}
    for text in lines:
        death, signalled, number = _DEATH.match(text), _SIGNAL.search(text), _CODE.search(text)
        srun = _SRUN.search(text)
        if death and not signal:
            signal = next(name for name, words in death.groupdict().items() if words)
        if signalled and not signal and not _CHILD.search(text):
            signal = _signal_named(signalled.groupdict())
        if srun:
            signal = signal or _srun_signal(srun["what"])
            code = int(srun["code"]) if srun["code"] and code is None else code
        if number and not _CHILD.search(text):
            value = _value(number["code"])
            if code is None or (not code and value):
                code = value
        if _OOM_KILL.search(text):
            facts.setdefault("oom_kill", text.strip()[:300])
        if _TIME_LIMIT.search(text):
            facts.setdefault("time_limit", text.strip()[:300])
        if _CORE.search(text):
            facts["core_dump"] = True
    signal = signal or _signal_of(code)
    if "oom_kill" in facts and not signal and not code:
        signal = "SIGKILL"
    return Ending(code, signal, facts)


def _value(text: str) -> int:
    # People who copy a status by hand write O for 0.
    text = text.lower().replace("o", "0")
    text = re.sub(r"(?<=^0xc0)0+(?=0{5}[\da-f]$)", "", text)
    return int(text, 16) if "0x" in text else int(text)


def _signal_named(groups: Mapping[str, str | None]) -> str:
    for name, value in groups.items():
        if value:
            return value if name.startswith("name") else _SIGNALS.get(int(value), "")
    return ""


def _srun_signal(what: str) -> str:
    if what == "Out Of Memory":
        return "SIGKILL"
    return next((name for name, words in _DEATHS.items() if re.fullmatch(words, what)), "")


def _signal_of(code: int | None) -> str:
    """The signal of an exit status: -9 of Python, 137 of a shell, a Windows status."""
    if code is None:
        return ""
    if code & 0xFFFFFFFF in _WINDOWS and (code < -255 or code > 255):
        return _WINDOWS[code & 0xFFFFFFFF]
    if -64 <= code < 0:
        return _SIGNALS.get(-code, "")
    return _SIGNALS.get(code - 128, "") if 128 < code < 160 else ""
