"""How often the diagnosis of an output is right: `make bench-diagnosis`.

    python -m benchmarks.diagnosis [--texts]

The faults of `tests/programs/crashes_*.py` are raised for real; `tests/data/diagnosis/` holds outputs in the shapes of
other versions and machines, written by us, and harmless texts. Every one is diagnosed as it is and in the ways a text
is changed when people pass it on. Beside it stands the keyword matcher that people write by hand. The pages of the
catalogue were mended on these texts, so the figures tell what is covered, not how unseen reports are read.
`--texts` leaves out what has to be raised.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from labbook.diagnosis.catalogue.matcher import Matcher
from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.diagnosis.cause_ranking import diagnose
from labbook.diagnosis.text.log_reader import read_text

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / "tests" / "programs"
TEXTS = ROOT / "tests" / "data" / "diagnosis"
_LIMIT_S = 240

KEYWORDS = (
    (("out of memory", "oom"), "cuda_oom"),
    (("killed", "exit code 137"), "host_oom_killed"),
    (("device-side assert",), "cuda_device_assert"),
    (("illegal memory access",), "illegal_memory_access"),
    (("segmentation fault", "sigsegv", "core dumped"), "illegal_instruction_or_segfault"),
    (("cudnn", "cublas"), "cudnn_error"),
    (("driver", "not compiled with cuda", "no kernel image"), "cuda_driver_mismatch"),
    (("unused parameter", "expected to have finished reduction"), "ddp_unused_parameters"),
    (("nccl", "rendezvous", "process group"), "nccl_or_collective"),
    (("address already in use",), "port_in_use"),
    (("shared memory", "shm", "bus error"), "shared_memory"),
    (("missing key", "unexpected key"), "checkpoint_key_mismatch"),
    (("size mismatch for",), "checkpoint_size_mismatch"),
    (("dataloader worker",), "dataloader_worker_died"),
    (("pickle", "pickling"), "pickling_error"),
    (("inplace operation", "in-place"), "inplace_modification"),
    (("second time",), "backward_twice"),
    (("does not require grad", "grad_fn"), "no_grad_path"),
    (("scalar outputs",), "non_scalar_backward"),
    (("same device", "expected all tensors"), "device_mismatch"),
    (("dtype", "scalar type", "expected float"), "dtype_mismatch"),
    (("shape", "size", "dimension"), "shape_mismatch"),
    (("index out of range", "out of bounds", "out of range"), "index_out_of_range"),
    (("no module named",), "missing_dependency"),
    (("undefined symbol", "numpy.dtype size"), "import_abi_mismatch"),
    (("no such file",), "file_not_found"),
    (("permission denied",), "permission_error"),
    (("no space left",), "disk_full"),
    (("checkpoint", "pytorchstreamreader", "weights_only"), "checkpoint_load_error"),
    (("unicodedecodeerror", "jsondecodeerror", "cannot identify image"), "data_decode_error"),
    (("num_samples=0", "empty"), "data_empty"),
    (("not implemented",), "unsupported_op"),
    (("dynamo", "inductor", "torchscript", "ninja"), "compile_error"),
    (("has no attribute", "cannot import name"), "api_version_mismatch"),
    (("timed out", "timeout", "time limit"), "timeout"),
    (("keyboardinterrupt",), "interrupted"),
    (("nan", "inf"), "nan_or_inf"),
    (("typeerror", "nonetype", "nameerror", "keyerror"), "type_error_user_code"),
    (("valueerror", "config", "invalid"), "config_error"),
)
"""What a careful person writes down in an hour: the rare words first, the common ones last."""


@dataclass(frozen=True)
class Sample:
    """An output with what an expert would call it; `family` is "none" for a harmless one."""

    source: str
    name: str
    family: str
    symptoms: tuple[str, ...]
    text: str


def by_keywords(text: str) -> str:
    """The family that the keyword matcher names, or ""."""
    small = text.lower()
    return next((family for words, family in KEYWORDS if any(word in small for word in words)), "")


def written() -> Iterator[Sample]:
    """The samples of `tests/data/diagnosis`: `== family symptom ...` stands above each."""
    for path in sorted(TEXTS.glob("*.txt")):
        for number, part in enumerate(("\n" + path.read_text(encoding="utf-8")).split("\n== ")[1:], 1):
            head, _, text = part.partition("\n")
            family, *symptoms = head.split()
            yield Sample(path.stem, f"{path.stem}-{number}", family, tuple(symptoms), text.strip("\n") + "\n")


def raised(framework: str) -> Iterator[Sample]:
    """The faults of one framework, raised in a process of their own; it is started again after one that kills it."""
    program = PROGRAMS / f"crashes_{framework}.py"
    listed = "import sys; sys.path.insert(0, {!r}); import crashes, crashes_{}; print('NAMES', *crashes.FAULTS)"
    listing = [sys.executable, "-c", listed.format(str(PROGRAMS), framework)]
    printed = subprocess.run(listing, capture_output=True, text=True, timeout=_LIMIT_S, check=True).stdout
    names = printed[printed.index("NAMES") :].split()[1:]
    while names:
        lines = [line for line in _output_of([sys.executable, str(program), *names]) if line.startswith('{"name"')]
        for line in lines:
            told = json.loads(line)
            if not told["text"].strip():
                print(f"nothing was raised by {told['name']}", file=sys.stderr)
                continue
            yield Sample(f"raised {framework}", told["name"], told["family"], tuple(told["symptoms"]), told["text"])
        if len(lines) < len(names):
            print(f"no answer from {names[len(lines)]}", file=sys.stderr)
        names = names[len(lines) + 1 :]


def _output_of(command: list[str]) -> list[str]:
    # A file, not a pipe: workers that outlive a killed parent would hold a pipe open.
    with tempfile.TemporaryFile("w+") as file:
        process = subprocess.Popen(
            command,
            stdout=file,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        try:
            process.wait(_LIMIT_S)
        except subprocess.TimeoutExpired:
            print("stopped: the faults took too long", file=sys.stderr)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        file.seek(0)
        return file.read().splitlines()


def _lines(text: str) -> list[str]:
    return text.rstrip("\n").split("\n")


def _each(form: str) -> Callable[[str], str]:
    return lambda text: "".join(form.format(line=line, second=n % 60) + "\n" for n, line in enumerate(_lines(text)))


def _interleaved(text: str) -> str:
    return "".join(f"[rank{rank}]: {line}\n" for line in _lines(text) for rank in (0, 1))


def _middle_lost(text: str) -> str:
    lines = _lines(text)
    keep = max(1, len(lines) // 3)
    return "\n".join([*lines[:keep], "...", *lines[-keep:]]) if len(lines) > 3 else text


def _issue(text: str) -> str:
    return f"### Describe the problem\nIt stopped today. Output:\n\n```\n{text.rstrip()}\n```\n\nAny idea? Thanks.\n"


def _wrapped(text: str) -> str:
    return "\n".join(piece for line in _lines(text) for piece in (textwrap.wrap(line, 80) or [""])) + "\n"


VARIANTS: dict[str, Callable[[str], str]] = {
    "whole": lambda text: text,
    "last 3 lines": lambda text: "\n".join(_lines(text)[-3:]),
    "last line": lambda text: _lines(text)[-1],
    "rank prefix": _each("[rank3]: {line}"),
    "timestamps": _each("2026-03-04 10:12:{second:02d},417 - train - ERROR - {line}"),
    "ANSI colours": _each("\x1b[31m{line}\x1b[0m"),
    "quoted": _each("> {line}"),
    "in an issue": _issue,
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "wrapped at 80": _wrapped,
    "in Chinese": lambda text: f"训练时报错 {_lines(text)[-1].strip()} 请问应该怎么解决?",
    "middle lost": _middle_lost,
    "two ranks": _interleaved,
    "double spaced": lambda text: "\n\n".join(_lines(text)) + "\n",
}
"""What happens to an output on its way to a reader."""


def scored(
    samples: list[Sample], judge: Callable[[str], tuple[str, str]], change: Callable[[str], str]
) -> Counter[str]:
    """Counts of family, symptom, unknown and wrong.

    Args:
        samples: Failures, none harmless.
        judge: Family and symptom of a text, "" where it does not know.
        change: A variant.
    """
    counts: Counter[str] = Counter()
    for sample in samples:
        family, symptom = judge(change(sample.text))
        known = bool(family) and not (family == "other" and not symptom)
        counts["family" if family == sample.family else "wrong" if known else "unknown"] += 1
        counts["symptom"] += symptom in sample.symptoms
    return counts


def judge_of(matcher: Matcher) -> Callable[[str], tuple[str, str]]:
    """The diagnosis as a function of a text."""

    def judge(text: str) -> tuple[str, str]:
        primary = diagnose(read_text(text), matcher).primary
        return (primary.family, primary.symptom) if primary else ("", "")

    return judge


def _row(name: str, count: int, counts: Counter[str]) -> str:
    shares = " | ".join(f"{100 * counts[kind] / count:.1f} %" for kind in ("family", "symptom", "unknown", "wrong"))
    return f"| {name} | {count} | {shares} |"


def main() -> None:
    """Prints the tables."""
    began = time.perf_counter()
    matcher = Matcher(load_catalogue())
    start_up = time.perf_counter() - began
    samples = list(written())
    if "--texts" not in sys.argv:
        samples += [*raised("torch"), *raised("paddle")]
    failures = [sample for sample in samples if sample.family != "none"]
    harmless = [sample for sample in samples if sample.family == "none"]
    judge = judge_of(matcher)
    by_hand = lambda text: (by_keywords(text), "")  # noqa: E731 - the same shape as judge
    head = "| {} | texts | family right | symptom right | unknown | wrong |\n|---|---|---|---|---|---|"
    print(head.format("source, as it is"))
    for source in sorted({sample.source for sample in failures}):
        own = [sample for sample in failures if sample.source == source]
        print(_row(source, len(own), scored(own, judge, VARIANTS["whole"])))
        print(_row(f"{source}, keywords", len(own), scored(own, by_hand, VARIANTS["whole"])))
    print("\n" + head.format("all, changed"))
    began, count = time.perf_counter(), 0
    for name, change in VARIANTS.items():
        print(_row(name, len(failures), scored(failures, judge, change)))
        count += len(failures)
    each_ms = 1000 * (time.perf_counter() - began) / count
    for name in ("whole", "last line"):
        print(_row(f"{name}, keywords", len(failures), scored(failures, by_hand, VARIANTS[name])))
    print(f"\nharmless texts: {len(harmless)}; with a finding: labbook", end=" ")
    print(sum(bool(judge(sample.text)[0]) for sample in harmless), end=", keywords ")
    print(sum(bool(by_keywords(sample.text)) for sample in harmless))
    print(f"{each_ms:.1f} ms a diagnosis; the catalogue is ready after {1000 * start_up:.0f} ms\n")
    for sample in samples:
        family, symptom = judge(sample.text)
        if (family or "none") != sample.family:
            print(f"missed: {sample.name}: {sample.family}, not {family or 'unknown'} {symptom}", file=sys.stderr)


if __name__ == "__main__":
    main()
