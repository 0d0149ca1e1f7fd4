"""A review: the files of a set of paths read, all rules asked, remarks in order."""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Sequence
from pathlib import Path

from labbook.errors import UsageError
from labbook.frozen import dataclass
from labbook.model.message import Message
from labbook.model.symptom import SEVERITIES
from labbook.review.code_index import Code, last_name
from labbook.review.rules import (
    data_pipeline,
    image_values,
    loss_functions,
    model_classes,
    modes_and_devices,
    script_options,
    shared_storage,
    training_loop,
)
from labbook.review.source_file import Source, Unreadable, read_source
from labbook.review.violation import Hit, Rule, Violation
from labbook.store.sentences import Sentences

RULES: tuple[Rule, ...] = (
    *training_loop.RULES,
    *loss_functions.RULES,
    *modes_and_devices.RULES,
    *model_classes.RULES,
    *shared_storage.RULES,
    *data_pipeline.RULES,
    *image_values.RULES,
    *script_options.RULES,
)
"""All rules of the review."""

_MOST_FILES = 5000
_SKIPPED = {"node_modules", "__pycache__", "site-packages", "build", "dist", "venv", "env"}
_TRAINERS = re.compile(
    r"(pytorch_lightning|lightning|lightning_fabric|ignite|fastai|accelerate|keras|tensorflow|deepspeed|catalyst|mmcv"
    r"|mmengine|composer|skorch|colossalai|torch_xla|horovod|apex)(\.|$)"
)
_TRAINER_NAMES = re.compile(r"transformers\.(\w+\.)*\w*Trainer$|trl\.\w+Trainer$|sentence_transformers\.\w*Trainer$")
_FRAMEWORKS = ("torch", "paddle", "torchvision")


@dataclass(frozen=True)
class Review:
    """What a review found.

    Args:
        remarks: In the order of files and lines.
        files: How many files were read.
        problems: What could not be read, a sentence each.
    """

    remarks: tuple[Violation, ...] = ()
    files: int = 0
    problems: tuple[str, ...] = ()


def review(paths: Sequence[Path], language: str = "en") -> Review:
    """The review of files and folders.

    Args:
        paths: Python files, notebooks, and folders, which are searched for them.
        language: "en" or "zh".

    Raises:
        UsageError: A path does not exist, or is neither.
    """
    return review_files([one for path in paths for one in _files(path)], language)


def review_files(files: Sequence[Path], language: str = "en", seconds: float | None = None) -> Review:
    """The review of files that belong together.

    Args:
        files: Python files and notebooks.
        language: "en" or "zh".
        seconds: How long it may take; what is not reached is left out.
    """
    until = None if seconds is None else time.monotonic() + seconds
    sources: list[Source] = []
    problems: list[str] = []
    for path in dict.fromkeys(files):
        if until is not None and time.monotonic() > until:
            break
        try:
            sources.append(read_source(path, str(path)))
            problems += sources[-1].problems
        except Unreadable as error:
            problems.append(str(error))
    remarks: list[Violation] = []
    for group in _together(sources):
        code = Code(group)
        for source in group:
            if until is not None and time.monotonic() > until:
                break
            remarks += _remarks(code, source, language, until)
    order = {str(source.path): number for number, source in enumerate(sources)}
    remarks.sort(key=lambda one: (order.get(one.file, 0), one.cell, one.line, one.rule))
    return Review(tuple(remarks), len(sources), tuple(problems))


def _files(path: Path) -> list[Path]:
    if path.is_file():
        if path.suffix not in (".py", ".ipynb", ".pyw"):
            raise UsageError(f"{path} is neither Python nor a notebook", hint="give .py or .ipynb files, or a folder")
        return [path]
    if not path.is_dir():
        raise UsageError(f"there is no file or folder {path}", hint="give Python files, notebooks or folders")
    found: list[Path] = []
    waiting = [path]
    while waiting and len(found) < _MOST_FILES:
        try:
            entries = sorted(waiting.pop().iterdir())
        except OSError:
            continue
        for entry in entries:
            if entry.is_symlink() or entry.name.startswith("."):
                continue
            if entry.is_dir() and entry.name not in _SKIPPED:
                waiting.append(entry)
            elif entry.is_file() and entry.suffix in (".py", ".ipynb"):
                found.append(entry)
    return found[:_MOST_FILES]


def _together(sources: Sequence[Source]) -> list[list[Source]]:
    """Sources by project: files that import one another or stand in one package are judged together.

    Scripts that only stand side by side are not: what one of them does says nothing of the others.
    """
    group = list(range(len(sources)))

    def root(number: int) -> int:
        while group[number] != number:
            group[number] = group[group[number]]
            number = group[number]
        return number

    by_place: dict[str, list[int]] = {}
    for number, source in enumerate(sources):
        by_place.setdefault(source.path.stem, []).append(number)
        by_place.setdefault(source.path.parent.name, []).append(number)
    for number, source in enumerate(sources):
        imported = {part for name in [*source.names.values(), *source.stars] for part in name.split(".") if part}
        for part in imported - set(_FRAMEWORKS) - {"nn", "optim", "utils", "data", "functional", "io", "np", "numpy"}:
            for other in by_place.get(part, ())[:200]:
                near = _near(source.path, sources[other].path)
                if near and sources[other].path.stem in imported:
                    group[root(other)] = root(number)
        for part in {"utils", "data", "io"} & {name.split(".")[0] for name in source.names.values()}:
            for other in by_place.get(part, ())[:200]:
                if _near(source.path, sources[other].path):
                    group[root(other)] = root(number)
    groups: dict[int, list[Source]] = {}
    for number, source in enumerate(sources):
        groups.setdefault(root(number), []).append(source)
    return list(groups.values())


def _near(one: Path, other: Path) -> bool:
    return (
        one.parent == other.parent
        or one.parent in other.parents
        or other.parent in one.parents
        or (one.parent.parent == other.parent.parent)
    )


def _remarks(code: Code, source: Source, language: str, until: float | None) -> list[Violation]:
    if not any(name.split(".")[0] in _FRAMEWORKS for name in source.names.values()):
        return []
    trainer = runs_by_trainer(source)
    found: dict[tuple[str, int], Violation] = {}
    for rule in RULES:
        if (rule.loop and trainer) or (until is not None and time.monotonic() > until):
            continue
        for hit in rule.find(code, source):
            if not source.silenced(hit.node, rule.name):
                remark = _remark(rule, hit, source, language)
                found.setdefault((rule.name, getattr(hit.node, "lineno", 0)), remark)
    return list(found.values())


def runs_by_trainer(source: Source) -> bool:
    """Whether a library runs the training loop of a file: Lightning, Trainer, ignite, fastai, paddle.Model, ..."""
    names = set(source.names.values())
    if any(_TRAINERS.match(name) or _TRAINER_NAMES.match(name) for name in names):
        return True
    return any(
        (isinstance(node, ast.Call) and source.dotted(node.func) in ("paddle.Model", "paddle.hapi.Model"))
        or (
            isinstance(node, ast.Call)
            and last_name(node.func) == "Trainer"
            and isinstance(node.func, ast.Name)
            and node.func.id in source.names
        )
        for node in source.nodes
    )


def rule_rows(language: str = "en") -> list[dict[str, object]]:
    """Returns a row for each rule: `rule`, `symptom`, `severity`, `tier`, `what`, `do` and `source`.

    The sentences have placeholders for what a place in the code would fill in.
    """
    say = Sentences(language)
    return [
        {
            "rule": rule.name,
            "symptom": rule.symptom,
            "severity": rule.severity,
            "tier": rule.tier,
            "what": say.template(rule.message_key("what")),
            "do": say.template(rule.message_key("advice")),
            "source": rule.source,
        }
        for rule in RULES
    ]


def _remark(rule: Rule, hit: Hit, source: Source, language: str) -> Violation:
    line, cell, text = source.line(hit.node)
    say = Sentences(language)
    return Violation(
        rule=rule.name,
        symptom=rule.symptom,
        severity=hit.severity or rule.severity,
        tier=3 if hit.severity == "note" else rule.tier,
        file=source.shown,
        line=line,
        text=text,
        what=say(Message(rule.message_key("what"), hit.values)),
        advice=say(Message(rule.message_key("advice"), hit.values)),
        cell=cell,
    )


def at_least(severity: str, limit: str) -> bool:
    """Whether a severity is as grave as a limit, or graver."""
    return SEVERITIES.index(severity) <= SEVERITIES.index(limit)
