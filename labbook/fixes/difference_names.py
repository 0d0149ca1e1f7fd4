"""Names of differences, and whether a failure or the page of a symptom says them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from labbook.model.confirmed_fix import changed_lines
from labbook.model.run import Change, Frame, Run

OPTIONS = ("argument", "config")
VALUED = (*OPTIONS, "environment")

HISTORY = frozenset({"commit", "branch", "repository"})
"""Changes of kind "code" that only say that something was committed."""

_USUAL = {"learning_rate": "lr", "bs": "batch_size", "bsz": "batch_size", "wd": "weight_decay", "nw": "num_workers"}
"""Names of options -> the names that the pages of symptoms use."""


_PAIR = re.compile(r"(?<![\w.-])([\w.-]+)[\"']?\s*[:=]\s*[\"']?([^\"',}\]\n#]*[^\"',}\]\n#\s])")
"""A key and its value in YAML, JSON, TOML or INI."""


def find_pairs(text: str) -> list[tuple[str, str]]:
    """Returns the keys and values that are on one line of a configuration."""
    return _PAIR.findall(text)


def matches_cure(change: Change, pattern: str) -> bool:
    """Whether a difference matches a `cured_by` pattern: "option:*size*", "package:torch", "code".

    Args:
        pattern: A kind, or a kind and a name with `*` and `?`; "option" is an argument or a line of a configuration.
    """
    kind, _, glob = pattern.partition(":")
    if change.kind not in (OPTIONS if kind.strip() == "option" else (kind.strip(),)):
        return False
    wanted = normalize_name(glob)
    if not wanted:
        return True
    return any(fnmatchcase(name, wanted) for name in list_names(change))


def list_names(change: Change) -> list[str]:
    """Returns the names of a difference: the whole name, its last part, the keys of changed lines."""
    name = normalize_name(change.what)
    names = [name, name.rpartition(".")[2], name.rpartition("/")[2], *map(normalize_name, list_raw_keys(change))]
    if change.kind == "argument" and change.what == "command":
        names += [normalize_name(word.partition("=")[0]) for word in f"{change.before} {change.now}".split()]
    return names + [_USUAL[word] for name in names for word in _USUAL if name == word or name.endswith("_" + word)]


def list_changed_pairs(change: Change) -> list[tuple[str, str, str]]:
    """Returns the keys in the changed lines of a configuration whose values differ, with the values before and now."""
    old, new = (dict(find_pairs("\n".join(part))) for part in changed_lines(change.detail))
    return [(key, old.get(key, ""), new.get(key, "")) for key in {**old, **new} if old.get(key) != new.get(key)]


def list_raw_keys(change: Change) -> list[str]:
    """Returns the keys of the changed lines of a configuration; of a file in one line, of the values that changed."""
    if change.kind not in ("config", "command"):
        return []
    if change.kind == "config" and (pairs := list_changed_pairs(change)):
        return [key for key, _, _ in pairs]
    lines = [line[1:] for line in change.detail.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    lines += [change.before, change.now]
    return [line.replace("=", ":").partition(":")[0].strip(" \"'{,") for line in lines]


def is_named(change: Change, texts: Iterable[str]) -> bool:
    """Whether one of some texts says the name of a difference: of an option, a package, a file or its module.

    The value that an option had is as good as its name where it is a word: a path that was not found.
    """
    if change.kind == "input" or (change.kind == "config" and not change.detail):
        return any(_names_path(text, change.what) for text in texts)
    name = change.what.split(" ")[-1 if change.kind == "environment" else 0].lstrip("-")
    names = {name, name.replace("-", "_"), name.replace("_", "-"), PurePosixPath(name).name}
    names |= {PurePosixPath(name).stem} if change.kind == "code" else set()
    names |= {name.rpartition(".")[2]} if change.kind == "argument" else set()
    names |= {change.before} if change.kind in VALUED and re.search(r"[^\W\d_]{3}", change.before) else set()
    names = {re.escape(one) for one in names if len(one) > 1 and one not in HISTORY}
    either = "|".join(sorted(names))
    # `--lr` and `cfg["lr"]`, and as an attribute `args.lr`, but not a part of `torch.utils.data.DataLoader`.
    pattern = (
        re.compile(rf"(?<![\w.-])-{{0,2}}(?:{either})(?![\w-])|(?<=[\w)\]]\.)(?:{either})(?![\w.(-])")
        if names
        else None
    )
    return pattern is not None and any(pattern.search(text) for text in texts)


def names_file(change: Change, paths: Collection[str]) -> bool:
    """Whether a value of an option or variable is the name of one of some files."""
    values = {PurePosixPath(value).name for value in (change.before, change.now) if PurePosixPath(value).suffix}
    return not values.isdisjoint(PurePosixPath(path).name for path in paths)


def _names_path(text: str, path: str) -> bool:
    """Whether a text has a path or the end of one, not the same name in another folder."""
    file = PurePosixPath(path.replace("\\", "/"))
    words = re.findall(rf"(?<![\w.-])[\w./\\~-]*{re.escape(file.name)}(?![\w-])", text) if file.name else []
    ends = [[part for part in re.split(r"[/\\]", word) if part not in ("", ".", "..", "~")] for word in words]
    own = [part for part in file.parts if part not in ("/", "..", "~")]
    return any(end[-size:] == own[-size:] for end in ends for size in [min(len(end), len(own))])


def normalize_name(name: str) -> str:
    """Returns the name of an option without dashes, in lower case."""
    return name.strip().lstrip("-").lower().replace("-", "_")


def list_messages(failed: Run) -> list[str]:
    """Returns the texts in which a failure says names: those of its exceptions and findings."""
    texts = [f"{raised.type}: {raised.message}" for raised in failed.exceptions if raised.ended_process]
    return texts + [text for finding in failed.findings for text in (finding.message, *finding.values.values())]


def list_failing_frames(run: Run) -> list[Frame]:
    """Returns the user's lines on the way to the failing line of a run, innermost first."""
    ended = sorted((e for e in run.exceptions if e.ended_process), key=lambda e: e.t)
    return [frame for e in ended[:1] for frame in reversed(e.frames) if frame.user]


def list_failing_lines(failed: Run) -> list[str]:
    """Returns the lines of the user's code at which a run failed."""
    ended = [raised for raised in failed.exceptions if raised.ended_process]
    lines = [line for raised in ended for line in [frame.source for frame in raised.frames if frame.user][-1:]]
    return lines + [str(finding.where.get("source") or "") for finding in failed.findings]


def map_modules(run: Run) -> dict[str, list[str]]:
    """Returns package -> the modules of other names that a run imported from it: opencv-python -> cv2."""
    found: dict[str, list[str]] = {}
    for module, package in (run.facts("python").get("modules") or {}).items():
        found.setdefault(str(package), []).append(str(module))
    return found
