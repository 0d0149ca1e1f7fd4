"""Checks the recorded configuration of a run: retyped YAML values, values set twice, unread options, unusual values.

The result is a note for people, never a verdict: no row changes the health of a run. A row is "certain" if the run
itself shows it, "likely" if it follows from how the usual loader works, and "note" if it is only unusual.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from statistics import median
from typing import Any

from labbook.findings.yaml_types import YamlValue, find_retyped_values
from labbook.model.message import Message, as_data, message
from labbook.model.run import ConfigFile, Run
from labbook.model.run_code import source_path
from labbook.model.run_fields import flatten
from labbook.store.notebook import Notebook

SOURCE = "configuration"
"""Name of the result among the captured facts of a run."""

_MAX_ROWS = 12
_MAX_YAML_BYTES = 128 * 1024
_MAX_SOURCE_BYTES = 2 * 1024 * 1024
_LEAST_EARLIER = 5
_MOST_EARLIER = 200
_FAR = 100.0
"""Factor from the median, and a tenth of it from the nearest value, at which a value is unusual. Source: chosen by us;
learning rates of one experiment seldom span more than two decades."""

_NOT_A_SIZE = re.compile(
    r"seed|port|(^|[._])(id|rank|pid|time|date|stamp|index|idx|version|job)($|[._])", re.IGNORECASE
)
_BY_LOADER = frozenset(("configuration.yaml.number_as_text", "configuration.yaml.date"))
"""Kinds that PyYAML reads in another way than OmegaConf."""
_OTHER_LOADERS = re.compile(r"\bruamel\b|\bstrictyaml\b|\badd_implicit_resolver\b|\badd_constructor\b|BaseLoader")
_REPAIRED_BY = {"_as_text": "float|int|eval", "_as_bool": "bool", ".date": "str"}
"""Conversions after which a value is what was meant; `str` of 1.10 is 1.1, and of `no` False."""
_EVALUATES = re.compile(r"\bliteral_eval\b|(?<!\.)\beval\(")
_INHERITS = re.compile(
    r"""^\s*["']?(_?base_?|_base_\w*|defaults?|extends|inherits?(_from)?|parent|includes?|import|base_config)["']?\s*[:=]""",
    re.IGNORECASE | re.MULTILINE,
)


def add_configuration_check(notebook: Notebook, run: Run) -> Run:
    """Returns the run with what is odd in its configuration among the captured facts; never fails."""
    rows: list[dict[str, Any]] = []
    for find in (_schema_errors, _retyped, _set_twice, _check_unread, _check_unread_keys, _unusual):
        with suppress(Exception):
            # A hostile file or broken index costs these rows, never the entry.
            rows += [{"certainty": certainty, "message": as_data(text)} for certainty, text in find(notebook, run)]
    return replace(run, captured={**run.captured, SOURCE: {"rows": rows[:_MAX_ROWS]}}) if rows else run


def _schema_errors(notebook: Notebook, run: Run) -> Iterator[tuple[str, Message]]:
    if notebook.config.config_schema:
        from labbook.findings.configuration_schema import schema_errors

        for text in schema_errors(notebook.config.config_schema, notebook.paths.root, run):
            yield "schema", text


def _retyped(_notebook: Notebook, run: Run) -> Iterator[tuple[str, Message]]:
    left = _MAX_YAML_BYTES
    code = ""
    for config in run.configs:
        left -= len(config.text)
        if config.format != "yaml" or config.truncated or left < 0:
            continue
        values = find_retyped_values(config.text)
        code = code or (_code_text(run) if values else "")
        for value in values:
            certainty = "certain" if value.kind == "configuration.yaml.repeated_key" else _certainty(value, run, code)
            if certainty:
                # A sentence takes "inf" alone for a number.
                text = f'"{value.written}"' if value.kind.endswith("special_as_text") else value.written
                values_of = {"key": value.key, "text": text, "read": value.read}
                yield certainty, Message(value.kind, {**values_of, "at": f"{_file_name(config, run)}:{value.line}"})


def _certainty(value: YamlValue, run: Run, code: str) -> str:
    """Returns "certain" if an option of the run has the read value, "likely" by the loader, else ""."""
    looked_up = (_look_up(parsed.values, value.path) for parsed in run.arguments)
    known = [found[0] for found in looked_up if found is not None]
    repaired = next((by for end, by in _REPAIRED_BY.items() if value.kind.endswith(end)), "")
    if repaired and re.search(rf"\b({repaired})\(\s*[^()\n]*\b{re.escape(value.leaf)}\b", code):
        return ""
    if value.kind.endswith("list_as_text") and ".split(" in code:
        return ""
    as_text = value.kind.endswith("_as_text")
    if known and not value.kind.endswith("key_as_bool"):
        return "certain" if all((one == value.written) == as_text for one in known) else ""
    if "yaml" not in run.packages or _OTHER_LOADERS.search(code):
        return ""
    if value.kind in (
        "configuration.yaml.number_as_text",
        "configuration.yaml.tuple_as_text",
        "configuration.yaml.list_as_text",
        "configuration.yaml.special_as_text",
        "configuration.yaml.none_as_text",
    ) and (_EVALUATES.search(code) or "pydantic" in run.packages or "jsonargparse" in run.packages):
        return ""
    if value.kind == "configuration.yaml.none_as_text" and re.search(r"""["']None["']""", code):
        return ""
    return "" if value.kind in _BY_LOADER and "omegaconf" in run.packages else "likely"


def _look_up(values: Any, path: Sequence[str | int]) -> tuple[Any] | None:  # noqa: ANN401 - JSON data
    """Returns the value at a path, or that of its only key as a flat option; `None` if there is none."""
    at = values
    for part in path:
        is_there = part in at if isinstance(at, Mapping) else isinstance(at, (list, tuple)) and part in range(len(at))
        if not is_there:
            break
        at = at[part]
    else:
        return (at,)
    last = path[-1] if path else ""
    return (values[last],) if isinstance(values, Mapping) and isinstance(last, str) and last in values else None


def _code_text(run: Run) -> str:
    text = ""
    for name in run.sources:
        with suppress(OSError):
            path = source_path(run, name)
            if path.stat().st_size + len(text) <= _MAX_SOURCE_BYTES:
                text += path.read_text("utf-8", "replace") + "\n"
    return text


def _file_name(config: ConfigFile, run: Run) -> str:
    path = PurePosixPath(config.path)
    return path.relative_to(run.cwd).as_posix() if path.is_relative_to(run.cwd) else path.name


def _set_twice(_notebook: Notebook, run: Run) -> Iterator[tuple[str, Message]]:
    """Options that stand on the command line with two values, and keys that two unrelated files set."""
    given: dict[str, list[str]] = {}
    words = run.argv
    for number, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name.startswith("--") or (equals and re.fullmatch(r"\+{0,2}[A-Za-z_][\w.]*", name)):
            follows = words[number + 1] if number + 1 < len(words) else ""
            value = value if equals else follows
            if value and (equals or not value.startswith("--")):
                given.setdefault(name.lstrip("-+").replace("-", "_"), []).append(value)
    for name, values in given.items():
        for parsed in run.arguments:
            found = _look_up(parsed.values, name.split("."))
            if len(set(values)) > 1 and found is not None and _is_same_value(found[0], values[-1]):
                yield "certain", message("configuration.twice.option", name=name, values=values, used=values[-1])
                break
    yield from _check_two_files(run, set(given))


def _check_two_files(run: Run, given: set[str]) -> Iterator[tuple[str, Message]]:
    from labbook.findings.configuration_schema import read_configuration

    seen: dict[str, tuple[ConfigFile, Any]] = {}
    for config in run.configs:
        if (
            config.truncated
            or _INHERITS.search(config.text)
            or PurePosixPath(config.path).name not in " ".join(run.argv)
        ):
            continue
        with suppress(ValueError):
            for name, value in flatten(read_configuration(config)):
                if name not in seen:
                    seen[name] = (config, value)
                    continue
                first, before = seen[name]
                path = name.split(".")
                used = next((one for a in run.arguments if (one := _look_up(a.values, path)) is not None), None)
                if before != value and used is not None and used[0] in (before, value) and name not in given:
                    yield (
                        "certain",
                        message(
                            "configuration.twice.files",
                            name=name,
                            first=_file_name(first, run),
                            before=str(before),
                            second=_file_name(config, run),
                            value=str(value),
                            used=str(used[0]),
                        ),
                    )


def _is_same_value(value: Any, text: str) -> bool:  # noqa: ANN401 - JSON data
    if isinstance(value, bool) or value is None:
        return str(value).lower() == text.lower()
    if isinstance(value, (int, float)):
        with suppress(ValueError):
            return float(text) == value
    return isinstance(value, str) and value == text


def _check_unread(_notebook: Notebook, run: Run) -> Iterator[tuple[str, Message]]:
    """Options of argparse that the command line sets and that no loaded source file reads."""
    if run.exit_code != 0:
        return
    from labbook.review.unread_options import unread_options

    line = {word.partition("=")[0].lstrip("-").replace("-", "_") for word in run.argv if word.startswith("--")}
    for parsed in run.arguments:
        names = [name for name in parsed.values if name in line and name not in parsed.unchanged]
        if parsed.source == "argparse" and names:
            files = [Path(name).expanduser() for name in run.sources]
            for name in unread_options(names, files) if files else ():
                yield "likely", message("configuration.unread.option", name=name, value=str(parsed.values[name]))


def _check_unread_keys(_notebook: Notebook, run: Run) -> Iterator[tuple[str, Message]]:
    """Keys of the configuration files on the command line, or named in the code, that no loaded source file reads."""
    if run.exit_code != 0 or not run.sources:
        return
    from labbook.findings.configuration_schema import read_configuration
    from labbook.review.unread_keys import unread_keys

    code = ""
    for config in run.configs:
        code = code or _code_text(run)
        if config.truncated or PurePosixPath(config.path).name not in f"{' '.join(run.argv)} {code}":
            continue
        with suppress(ValueError):
            keys = [name for name, _ in flatten(read_configuration(config)) if not _is_template(name, config)]
            for name in unread_keys(keys, [Path(name).expanduser() for name in run.sources]):
                yield "likely", message("configuration.unread.key", name=name, file=_file_name(config, run))


def _is_template(name: str, config: ConfigFile) -> bool:
    """Whether a key belongs to a section that other parts of a YAML file repeat, as `base: &base`."""
    section = re.escape(name.partition(".")[0])
    return name.startswith(("_", "x-", ".")) or re.search(rf"^{section}\s*:\s*&", config.text, re.MULTILINE) is not None


def _unusual(notebook: Notebook, run: Run) -> Iterator[tuple[str, Message]]:
    """Numbers far outside what earlier runs of the experiment used, and what was a number in all of them."""
    now = {
        name: value
        for parsed in reversed(run.arguments)
        for name, value in flatten(parsed.values)
        if _number(value) > 0 and not _NOT_A_SIZE.search(name)
    }
    if not now or not run.experiment:
        return
    for name, known in _earlier_values(notebook, run, now).items():
        numbers = [float(value) for value in known if type(value) in (int, float) and value > 0]
        if len(numbers) < _LEAST_EARLIER:
            continue
        value, middle, low, high = now[name], median(numbers), min(numbers), max(numbers)
        span = {"runs": len(numbers), "low": f"{low:.6g}", "high": f"{high:.6g}", "median": f"{middle:.6g}"}
        if type(value) not in (int, float):
            if len(numbers) == len(known):
                yield "note", message("configuration.unusual.kind", name=name, value=str(value), **span)
            continue
        above = value >= _FAR * middle and value >= _FAR / 10 * high
        below = value <= middle / _FAR and value <= low / (_FAR / 10)
        if above or below:
            yield "note", message("configuration.unusual.value", name=name, value=f"{value:.6g}", **span)


def _number(value: Any) -> float:  # noqa: ANN401 - JSON data
    """Returns a number, also one that is text; 1 for a truth value, which stands where a number did; else 0."""
    if isinstance(value, bool):
        return 1.0
    with suppress(TypeError, ValueError):
        return float(value)
    return 0.0


def _earlier_values(notebook: Notebook, run: Run, names: Mapping[str, Any]) -> dict[str, list[Any]]:
    from labbook.index.build import query_without_refresh
    from labbook.index.fix_outcomes import runs_of_experiment

    found: dict[str, list[Any]] = {name: [] for name in names}
    for meta in query_without_refresh(notebook, lambda index: runs_of_experiment(index, run.experiment, _MOST_EARLIER)):
        if meta.get("id") == run.id or not isinstance(meta.get("params"), Mapping):
            continue
        for name, value in meta["params"].items():
            if name in found:
                found[name].append(value)
    return found
