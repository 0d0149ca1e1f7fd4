"""The settings of a notebook: one field per setting, with default and validation."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import Field, field, fields
from pathlib import Path
from typing import Any

from labbook import __version__
from labbook.errors import NotebookError
from labbook.frozen import dataclass
from labbook.model.message import Message, message
from labbook.store.paths import SETTINGS_FILE
from labbook.store.toml_parser import parse_toml, repeated_key

_MIB = 1024 * 1024

Check = Callable[[Any], Message | None]
"""Validates a value of the right type; returns the problem, or `None`."""


def _one_of(*allowed: str) -> Check:
    named = ", ".join(f'"{name}"' for name in allowed)
    return lambda value: None if value in allowed else message("errors.settings.one_of", allowed=named)


_PROTECTIVE = frozenset(
    (
        *("commit", "branch", "sync", "remote", "redact_rules"),
        *("patch_max_bytes", "console_head_bytes", "console_tail_bytes", "config_max_bytes"),
    )
)
"""Settings that decide what is recorded and where it goes: a mistyped one may have meant to keep something private."""


def _check_between(low: float, high: float) -> Check:
    return lambda value: None if low <= value <= high else message("errors.settings.between", low=low, high=high)


def _branch_name(value: str) -> Message | None:
    bad = set(" ~^:?*[\\\x7f") | {chr(code) for code in range(32)}
    parts = value.split("/")
    broken = any(not part or part.startswith(".") or part.endswith((".lock", ".")) for part in parts)
    if broken or ".." in value or "@{" in value or value == "@" or value.startswith("-") or bad & set(value):
        return message("errors.settings.branch")
    return None


def _patterns(value: tuple[str, ...]) -> Message | None:
    return None if all(pattern.strip() for pattern in value) else message("errors.settings.empty_pattern")


def _setting(default: Any, check: Check = lambda _: None, *, env: str = "") -> Any:  # noqa: ANN401 - a field
    """Declare a field of `Config`; `env` is its environment variable if it is not `LABBOOK_<FIELD>`."""
    return field(default=default, metadata={"check": check, "env": env})


@dataclass(frozen=True)
class Config:
    """All settings. Later sources override earlier ones: defaults, `labbook.toml`, environment, flags.

    What each one decides is in `templates/words/messages/en_settings.toml`.
    """

    title: str = _setting("Lab notebook")
    language: str = _setting("auto", _one_of("auto", "en", "zh"))
    commit: str = _setting("branch", _one_of("branch", "checkout", "off"))
    branch: str = _setting("labbook", _branch_name)
    author: str = _setting("")
    sync: str = _setting("off", _one_of("off", "after-run"))
    remote: str = _setting("")
    experiment: str = _setting("")
    sweep: str = _setting("")
    probe: bool = _setting(True, env="LABBOOK_USE_PROBE")
    level: str = _setting("normal", _one_of("off", "light", "normal", "deep"))
    probe_budget: float = _setting(0.01, _check_between(0.0, 1.0))
    console_head_bytes: int = _setting(_MIB, _check_between(0, 2**40))
    console_tail_bytes: int = _setting(4 * _MIB, _check_between(0, 2**40))
    patch_max_bytes: int = _setting(_MIB, _check_between(0, 2**40))
    hash_full_bytes: int = _setting(64 * _MIB, _check_between(0, 2**50))
    artifacts: tuple[str, ...] = _setting((), _patterns)
    artifact_store: str = _setting("")
    artifact_limit: int = _setting(4096 * _MIB, _check_between(0, 2**60))
    artifact_keep_last: int = _setting(0, _check_between(0, 2**31))
    snapshot: str = _setting("", _one_of("", "best", "last", "failed"))
    snapshot_state: int = _setting(0, _check_between(0, 2**60))
    config_max_bytes: int = _setting(65536, _check_between(0, 2**30))
    config_schema: str = _setting("")
    environment_allow: tuple[str, ...] = _setting(())
    redact_rules: str = _setting("")
    resources_interval_s: float = _setting(5.0, _check_between(0.1, 3600))
    metric: str = _setting("")
    direction: str = _setting("", _one_of("", "max", "min"))
    ci_report: bool = _setting(True)
    site_name: str = _setting("")
    site_url: str = _setting("")
    notify_to: tuple[str, ...] = _setting(())
    notify_from: str = _setting("")
    notify_smtp: str = _setting("")
    notify_user: str = _setting("")
    report_people: bool = _setting(False)
    week_start: str = _setting("monday", _one_of("monday", "sunday"))

    def state_request(self) -> dict[str, object]:
        """Returns the setting `state` of the probe: when it saves the state of a training, and how much; or nothing."""
        if self.snapshot not in ("last", "failed") or not self.snapshot_state:
            return {}
        return {"when": self.snapshot, "limit": self.snapshot_state}

    def language_in_use(self, environ: Mapping[str, str] | None = None) -> str:
        """Language of entries, "en" or "zh"; "auto" is resolved by the locale variables."""
        if self.language != "auto":
            return self.language
        source = os.environ if environ is None else environ
        chosen = next((source[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if source.get(name)), "")
        return "zh" if chosen.lower().startswith("zh") else "en"

    def name_of_site(self, written: str = "") -> str:
        """Name of the site: the one in `mkdocs.yml`, unless it is empty or that of a notebook without a title."""
        return written if written not in ("", Config.title) else self.site_name or self.title


def load_config(root: Path | None, environ: Mapping[str, str], flags: Mapping[str, object] | None = None) -> Config:
    """Load the effective settings.

    Args:
        root: Folder with `labbook.toml` or a `pyproject.toml` that has `[tool.labbook]`; `None` for defaults.
        environ: `LABBOOK_<FIELD>` overrides the file; lists are separated by commas.
        flags: Settings from the command line; they override all others.

    Raises:
        NotebookError: A value of the wrong type, broken TOML, or an unknown flag; names file, key, value and line.
            Unknown keys of the file are skipped: `unknown_settings` names them. If one resembles a setting that
            decides what leaves the run's folder, nothing is committed or shared, whatever other sources say.
    """
    values: dict[str, Any] = {}
    held: dict[str, Any] = {}
    if root is not None:
        values, held = _read_file(root)
    for each in fields(Config):
        name = environment_name(each)
        if environ.get(name):
            values[each.name] = _checked(each, _parse_text(each, environ[name]), name)
    known = {each.name: each for each in fields(Config)}
    for key, value in (flags or {}).items():
        if key not in known:
            where, near = message("errors.settings.flags"), _nearest_setting(key)
            advice = "errors.settings.near_advice" if near else ""
            raise NotebookError("errors.settings.unknown", where=where, key=key, near=near, advice=advice)
        values[key] = _checked(known[key], value, message("errors.settings.flag", key=key))
    return Config(**(values | held))


def settings_text(config: Config, say: Callable[[Message], str]) -> str:
    """Return the text of a `labbook.toml` with all settings of `config` and their descriptions, as `say` has them."""
    lines = [f"# {say(message('settings.lead'))}", ""]
    for each in fields(Config):
        lines += [f"# {say(setting_help(each))}", f"{each.name} = {_toml(getattr(config, each.name))}", ""]
    return "\n".join(lines)


def setting_help(setting: Field[Any]) -> Message:
    """Return what a field of `Config` decides, as one sentence."""
    return Message(f"settings.{setting.name}")


def environment_name(setting: Field[Any]) -> str:
    """Name of the environment variable of a field of `Config`."""
    return str(setting.metadata["env"] or f"LABBOOK_{setting.name.upper()}")


def read_toml(path: Path) -> tuple[dict[str, Any], str]:
    """Return the data and the text of a TOML file.

    Raises:
        NotebookError: The file cannot be read or is not TOML; names the line.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise NotebookError("errors.settings.not_readable", path=path, reason=error) from error
    except UnicodeDecodeError as error:
        raise NotebookError("errors.settings.not_utf8", path=path) from error
    try:
        return parse_toml(text), text
    except ValueError as error:
        if (repeated := repeated_key(text, str(error))) is not None:
            key, first, second = repeated
            raise NotebookError("errors.settings.twice", path=path, key=key, first=first, second=second) from error
        raise NotebookError("errors.settings.not_toml", path=path, reason=error) from error


def has_table(project: Path) -> bool:
    """Whether a project file has `[tool.labbook]`; invalid TOML is not reported."""
    try:
        tools = read_toml(project)[0].get("tool")
    except NotebookError:
        return False
    return isinstance(tools, dict) and "labbook" in tools


def unknown_settings(root: Path) -> list[Message]:
    """Return a sentence for each key of the settings file that `load_config` skips.

    It is mistyped, or a setting of a newer labbook: in a team not everybody updates on the same day.

    Args:
        root: Folder of the notebook; its settings can be read.
    """
    path, table, text = _read_table(root)
    known = {each.name for each in fields(Config)}
    found = []
    for key in table:
        if key not in known:
            line = _line_of(key, text)
            place = message("errors.settings.of_line" if line else "errors.settings.of_file", path=str(path), line=line)
            near = _nearest_setting(key)
            if near in _PROTECTIVE:
                found.append(message("terminal.problems.setting_protects", place=place, name=key, near=near))
            elif near:
                found.append(message("terminal.problems.setting_near", place=place, name=key, near=near))
            else:
                found.append(message("terminal.problems.setting", place=place, name=key, version=__version__))
    return found


def _read_table(root: Path) -> tuple[Path, Mapping[str, Any], str]:
    """Return path, settings and text of the settings file.

    Raises:
        NotebookError: It cannot be read, or is not TOML.
    """
    path = root / SETTINGS_FILE
    if path.is_file():
        table, text = read_toml(path)
    else:
        path = root / "pyproject.toml"
        if not path.is_file():
            return path, {}, ""
        whole, text = read_toml(path)
        tools = whole.get("tool")
        table = tools.get("labbook", {}) if isinstance(tools, dict) else {}
    if not isinstance(table, dict):
        raise NotebookError("errors.settings.no_table", path=path)
    return path, table, text


def _read_file(root: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the settings of the file, and those that hold back commits where a protective one is mistyped."""
    path, table, text = _read_table(root)
    known = {each.name: each for each in fields(Config)}
    values = {}
    for key, value in table.items():
        if key in known:  # `unknown_settings` names the others
            line = _line_of(key, text)
            at = "errors.settings.in_line" if line else "errors.settings.in_file"
            values[key] = _checked(known[key], value, message(at, path=str(path), line=line, key=key))
    is_open = any(key not in known and _nearest_setting(key) in _PROTECTIVE for key in table)
    return values, {"commit": "off", "sync": "off"} if is_open else {}


def _nearest_setting(key: str) -> str:
    """Return the setting that a name resembles most, or ""."""
    from difflib import get_close_matches

    names = [each.name for each in fields(Config)]
    return next(iter(get_close_matches(key.lower().replace("-", "_"), names, n=1, cutoff=0.7)), "")


def _checked(setting: Field[Any], value: object, where: Message | str) -> Any:  # noqa: ANN401 - whatever the field holds
    wanted = _type_of(setting)
    fitting: object = value
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        fitting = float(value)
    if wanted is tuple and isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        fitting = tuple(value)
    if type(fitting) is not wanted:
        raise NotebookError(
            "errors.settings.wrong_kind",
            where=where,
            value=value,
            kind=Message(_KINDS[wanted]),
            help=setting_help(setting),
        )
    wrong = setting.metadata["check"](fitting)
    if wrong:
        raise NotebookError(
            "errors.settings.wrong_value", where=where, value=value, problem=wrong, help=setting_help(setting)
        )
    return fitting


def _type_of(setting: Field[Any]) -> type:
    default: object = setting.default
    return type(default)


_KINDS: dict[type, str] = {
    str: "errors.settings.kind_text",
    bool: "errors.settings.kind_bool",
    int: "errors.settings.kind_int",
    float: "errors.settings.kind_number",
    tuple: "errors.settings.kind_list",
}

_WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def _parse_text(setting: Field[Any], text: str) -> object:
    wanted = _type_of(setting)
    if wanted is bool:
        return _WORDS.get(text.strip().lower(), text)
    if wanted is tuple:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if wanted in (int, float):
        with suppress(ValueError):  # `_checked` refuses the text
            return wanted(text)
    return text


def _line_of(key: str, text: str) -> int:
    for number, line in enumerate(text.splitlines(), start=1):
        name = line.split("=", 1)[0].strip().strip("\"'")
        if "=" in line and name == key:
            return number
    return 0


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # A JSON string is a TOML basic string, except that TOML requires DEL to be escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return repr(value)
