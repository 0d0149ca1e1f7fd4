"""Runs a review: reads files, applies all rules, sorts the violations."""

from __future__ import annotations

import ast
import pkgutil
import re
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from labbook.errors import UsageError
from labbook.frozen import dataclass
from labbook.model.message import Message
from labbook.model.symptom import SEVERITIES
from labbook.review import rules as _rules
from labbook.review.code_index import Code
from labbook.review.source_file import Source, Unreadable, read_source
from labbook.review.violation import Hit, Rule, Violation
from labbook.store.text.sentences import Sentences

RULES = tuple(
    rule
    for module in pkgutil.walk_packages(_rules.__path__, f"{_rules.__name__}.")
    for rule in vars(import_module(module.name)).values()
    if isinstance(rule, Rule)
)
"""All rules of the review, in the order of the folders and modules of `review/rules/` and of the functions in them."""

_MAX_FILES = 5000
_SKIPPED = {"node_modules", "__pycache__", "site-packages", "build", "dist", "venv", "env"}
_TRAINERS = re.compile(
    r"(pytorch_lightning|lightning|lightning_fabric|ignite|fastai|accelerate|keras|tensorflow|deepspeed|catalyst|mmcv"
    r"|mmengine|composer|skorch|colossalai|torch_xla|horovod|apex)(\.|$)"
)
_TRAINER_NAMES = re.compile(r"transformers\.(\w+\.)*\w*Trainer$|trl\.\w+Trainer$|sentence_transformers\.\w*Trainer$")
_FRAMEWORKS = ("torch", "paddle", "torchvision", "lightning", "pytorch_lightning", "transformers", "skorch", "keras")
"""Packages of which a file has to import one to be reviewed."""
_SHARED_NAMES = {"utils", "data", "io"}
"""Modules of frameworks, and of the project if an import begins with them."""
_FOREIGN_NAMES = {*_FRAMEWORKS, *_SHARED_NAMES, "nn", "optim", "functional", "np", "numpy"}


@dataclass(frozen=True)
class Review:
    """The result of a review.

    Args:
        violations: In the order of files and lines.
        files: Number of files that were read.
        problems: Sentences on files or cells that could not be read.
    """

    violations: tuple[Violation, ...] = ()
    files: int = 0
    problems: tuple[str, ...] = ()


def review(paths: Sequence[Path], language: str = "en") -> Review:
    """Review files and folders.

    Args:
        paths: Python files, notebooks, and folders with such files.
        language: "en" or "zh".

    Raises:
        UsageError: A path does not exist or is another kind of file.
    """
    return review_files([file for path in paths for file in _files(path)], language)


def review_files(
    files: Sequence[Path], language: str = "en", seconds: float | None = None, rules: Sequence[Rule] = RULES
) -> Review:
    """Review files that belong together.

    Args:
        files: Python files and notebooks.
        language: "en" or "zh".
        seconds: Limit of the processor time; what is not reached by then is omitted. A busy machine changes nothing.
    """
    deadline = None if seconds is None else time.thread_time() + seconds
    sources: list[Source] = []
    problems: list[Unreadable] = []
    for path in dict.fromkeys(files):
        if deadline is not None and time.thread_time() > deadline:
            break
        try:
            sources.append(read_source(path, str(path)))
            problems += sources[-1].problems
        except Unreadable as error:
            problems.append(error)
    violations: list[Violation] = []
    for group in _group_by_project(sources):
        code = Code(group)
        for source in group:
            if deadline is not None and time.thread_time() > deadline:
                break
            violations += _find_violations(code, source, language, deadline, rules)
    order = {str(source.path): number for number, source in enumerate(sources)}
    violations.sort(key=lambda found: (order.get(found.file, 0), found.cell, found.line, found.rule))
    return Review(tuple(violations), len(sources), tuple(one.texts(language)[0] for one in problems))


def _files(path: Path) -> list[Path]:
    if path.is_file():
        if path.suffix not in (".py", ".ipynb", ".pyw"):
            raise UsageError("errors.review.neither", path=path)
        return [path]
    if not path.is_dir():
        raise UsageError("errors.review.no_path", path=path)
    found: list[Path] = []
    waiting = [path]
    while waiting and len(found) < _MAX_FILES:
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
    return found[:_MAX_FILES]


def _group_by_project(sources: Sequence[Source]) -> list[list[Source]]:
    """Group sources by project: files that import one another or belong to one package.

    Independent scripts in the same folder are not grouped.
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
        packages = {name.split(".")[0] for name in source.names.values()}
        for part in (imported - _FOREIGN_NAMES) | (_SHARED_NAMES & packages):
            for other in by_place.get(part, ())[:200]:
                path = sources[other].path
                if _are_neighbors(source.path, path) and (path.stem in imported or part in _SHARED_NAMES):
                    group[root(other)] = root(number)
    groups: dict[int, list[Source]] = {}
    for number, source in enumerate(sources):
        groups.setdefault(root(number), []).append(source)
    return list(groups.values())


def _are_neighbors(one: Path, other: Path) -> bool:
    return (
        one.parent == other.parent
        or one.parent in other.parents
        or other.parent in one.parents
        or (one.parent.parent == other.parent.parent)
    )


def _find_violations(
    code: Code, source: Source, language: str, deadline: float | None, rules: Sequence[Rule]
) -> list[Violation]:
    if not any(name.split(".")[0] in _FRAMEWORKS for name in source.names.values()):
        return []
    trainer = runs_by_trainer(source)
    found: dict[tuple[str, int], Violation] = {}
    for rule in rules:
        if (rule.loop and trainer) or (deadline is not None and time.thread_time() > deadline):
            continue
        for hit in rule.find(code, source):
            if not source.is_silenced(hit.node, rule.name):
                violation = _violation(rule, hit, source, language)
                found.setdefault((rule.name, getattr(hit.node, "lineno", 0)), violation)
    return list(found.values())


def runs_by_trainer(source: Source) -> bool:
    """Whether a library runs the training loop of a file: Lightning, Trainer, ignite, fastai, paddle.Model, ..."""
    names = set(source.names.values())
    if any(_TRAINERS.match(name) or _TRAINER_NAMES.match(name) for name in names):
        return True
    called = [call.func for call in source.of_type(ast.Call)]
    imported = "Trainer" in source.names and any(isinstance(one, ast.Name) and one.id == "Trainer" for one in called)
    return imported or any(source.dotted(one) in ("paddle.Model", "paddle.hapi.Model") for one in called)


def rule_rows(language: str = "en") -> list[dict[str, object]]:
    """Return a row for each rule: `rule`, `symptom`, `severity`, `tier`, `what`, `do` and `source`.

    The sentences contain placeholders for the values of a violation.
    """
    sentences = Sentences(language)
    return [
        {
            "rule": rule.name,
            "symptom": rule.symptom,
            "severity": rule.severity,
            "tier": rule.tier,
            "what": sentences.template(rule.message_key("what")),
            "do": sentences.template(rule.message_key("advice")),
            "source": rule.source,
        }
        for rule in RULES
    ]


def _violation(rule: Rule, hit: Hit, source: Source, language: str) -> Violation:
    line, cell, text = source.line(hit.node)
    sentences = Sentences(language)
    return Violation(
        rule=rule.name,
        symptom=rule.symptom,
        severity=hit.severity or rule.severity,
        tier=3 if hit.severity == "note" else rule.tier,
        file=source.label,
        line=line,
        text=text,
        what=sentences(Message(rule.message_key("what"), hit.values)),
        advice=sentences(Message(rule.message_key("advice"), hit.values)),
        cell=cell,
        values=hit.values,
    )


def is_at_least(severity: str, limit: str) -> bool:
    """Whether a severity is at least as serious as a limit."""
    return SEVERITIES.index(severity) <= SEVERITIES.index(limit)
