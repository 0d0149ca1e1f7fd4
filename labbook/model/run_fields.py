"""Names and values by which runs are filtered: fields of the front matter, options and metrics. Pure."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

Front = Mapping[str, Any]

METRIC_PARTS = ("first", "best", "last", "min", "max", "steps")
"""Values of a metric that a front matter may have; without one of them, a name is its last value, else its best."""

ALIASES = {"duration": "duration_s", "exit": "exit_code", "commit": "code.commit", "branch": "code.branch"}
"""Short name -> path of a field in the front matter."""

_INTERPRETER = re.compile(r"(?:.*/)?(?:python|pypy|torchrun)[\d.]*$")
_OTHERWISE = re.compile(r"[^0-9a-z]+")


def parse_command(argv: Sequence[Any]) -> dict[str, Any]:
    """Returns the options of a command line with their values, and the other words as "command"."""
    line = [str(word) for word in argv]
    options: dict[str, Any] = {}
    plain: list[str] = []
    at = 0
    while at < len(line):
        word = line[at]
        at += 1
        if word == "-m" and len(plain) == 1 and _INTERPRETER.match(plain[0]):
            plain += [word, *line[at : at + 1]]  # `python -m package.train` has a program, no option
            at += 1
        elif word.startswith("-") and len(word) > 1 and not is_number(word):
            name, equals, value = word.partition("=")
            if not equals and at < len(line) and (not line[at].startswith("-") or is_number(line[at])):
                value = line[at]
                at += 1
            options[name] = f"{options[name]} {value}" if name in options else value or "given"
        else:
            plain.append(word)
    if plain:
        options["command"] = shlex.join(plain)
    return options


def ray_node(argv: Sequence[str]) -> str:
    """Returns the id of the node of a worker of Ray, from its command line; "" for any other process."""
    if not any(word.endswith("default_worker.py") or word.startswith("ray::") for word in argv):
        return ""
    return next((word.partition("=")[2] for word in argv if word.startswith("--node-id=")), "?")


def option_values(front: Front) -> dict[str, Any]:
    """Returns name -> value of the options of a run, as parsed by the program, else from the command line.

    `--batch-size` and `batch_size` are the same name.
    """
    given = front.get("params")
    if not isinstance(given, Mapping) or not given:
        return dict(_command_options(str(front.get("command") or "")))
    return _plain_fields(given)


def option_names(front: Front) -> set[str]:
    """Returns the names of the options that the program parsed or that are on the command line."""
    return {*option_values(front), *_command_options(str(front.get("command") or ""))}


def differing_names(options: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the names of which several runs have different values; one that a run lacks differs, too."""
    names = dict.fromkeys(name for each in options for name in each)
    return [name for name in names if len({str(each.get(name)) for each in options}) > 1]


@lru_cache(maxsize=4096)
def field_key(name: str) -> str:
    """Returns a name as it is compared: `val/Acc`, `val-acc` and `val_acc` are the same."""
    return _OTHERWISE.sub("_", name.lower()).strip("_")


def field_names(front: Front) -> Iterator[tuple[str, str]]:
    """Yields what a run can be filtered by, as ("field", "param" or "metric", name)."""
    yield from (("field", name) for name, _ in _iter_fields(front))
    yield from (("param", name) for name in option_names(front))
    metrics = front.get("metrics")
    yield from (("metric", str(name)) for name in (metrics if isinstance(metrics, Mapping) else ()))


def field_values(front: Front, key: str) -> list[Any]:
    """Returns the values of an option and a metric with a name, else of a field of the front matter.

    Args:
        key: `duration_s`, `code.branch`, `lr`, `optimizer.lr`, `val_acc`, `val_acc.best`.
    """
    wanted = field_key(ALIASES.get(key.lower(), key))
    found = [value for name, value in option_values(front).items() if wanted in option_keys(name)]
    metrics = front.get("metrics")
    for name, values in metrics.items() if isinstance(metrics, Mapping) else ():
        bare = field_key(str(name))
        if not isinstance(values, Mapping):
            found += [values] if bare == wanted else []
        elif bare == wanted:
            found.append(values["last"] if values.get("last") is not None else values.get("best"))
        elif wanted.startswith(f"{bare}_") and wanted[len(bare) + 1 :] in METRIC_PARTS:
            found.append(values.get(wanted[len(bare) + 1 :]))
    found = found or [value for name, value in _iter_fields(front) if field_key(name) == wanted]
    return [value for value in found if value is not None]


@lru_cache(maxsize=4096)
def option_keys(name: str) -> frozenset[str]:
    """Returns the keys of an option: `optimizer.lr` is found as `optimizer_lr` and as `lr`."""
    return frozenset((field_key(name), field_key(name.rpartition(".")[2])))


def flatten(values: Mapping[str, Any], prefix: str = "", deepest: int = 6) -> list[tuple[str, Any]]:
    """Returns names and values of nested groups, such as `optimizer.lr`; deeper groups are values."""
    pairs: list[tuple[str, Any]] = []
    for name, value in values.items():
        if isinstance(value, Mapping) and value and prefix.count(".") < deepest:
            pairs += flatten(value, f"{prefix}{name}.", deepest)
        else:
            pairs.append((f"{prefix}{name}", value))
    return pairs


def as_number(value: object) -> float | None:
    """Returns a value as a number, `None` if it is none; `nan` and `inf` are numbers, true and false are not."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def is_equal(one: float, other: float) -> bool:
    """Whether two numbers are the same, apart from rounding; NaN is equal to NaN."""
    return math.isclose(one, other, rel_tol=1e-9) or (one != one and other != other)


@lru_cache(maxsize=4096)
def _command_options(command: str) -> Mapping[str, Any]:
    words = parse_command(_words(command))
    return _plain_fields({name: value for name, value in words.items() if name.startswith("-")})


def _plain_fields(given: Mapping[Any, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in given.items():
        bare = str(name).lstrip("-").replace("-", "_")
        if bare and (value is None or isinstance(value, (str, int, float))):
            found.setdefault(bare, value)
    return found


def _words(command: str) -> list[str]:
    # `shlex` takes 50 times as long as `split`, which suffices for most command lines.
    if not any(mark in command for mark in "\"'\\"):
        return command.split()
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def _iter_fields(front: Front) -> Iterator[tuple[str, Any]]:
    """Yields the fields of a front matter besides options and metrics; a nested one as `code.branch`."""
    for name, value in front.items():
        if name in ("params", "metrics"):
            continue
        if isinstance(value, Mapping):
            yield from ((f"{name}.{inner}", leaf) for inner, leaf in value.items() if not isinstance(leaf, Mapping))
        elif isinstance(value, (list, tuple)):
            yield from ((str(name), one) for one in value)
        else:
            yield str(name), value


def is_number(word: str) -> bool:
    """Whether a text reads as a float."""
    try:
        float(word)
    except ValueError:
        return False
    return True
