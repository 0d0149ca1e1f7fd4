"""Reads `mkdocs.yml` as data: runs no code of it and reads nothing outside the notebook.

A notebook may have been cloned from anywhere, and MkDocs runs code that its settings name: hooks, Python YAML tags,
theme folders, plugins, extensions. Only settings known to be data are used; all others are left out and listed in a
warning. With `--trust`, MkDocs reads the file itself.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from labbook.errors import NotebookError
from labbook.frozen import dataclass
from labbook.store.paths import stays_inside
from labbook.store.text.frontmatter import load_tagged
from labbook.store.text.sentences import Sentences
from labbook.store.text.words_files import overlay
from labbook.store.toml_parser import parse_toml

FILE = "mkdocs.yml"

_TABLES = parse_toml(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_WORDS = {name: frozenset(text.split()) for name, text in _TABLES.items() if isinstance(text, str)}
_PLUGINS = {name: options.split() for name, options in _TABLES["plugins"].items()}

_MOST_VALUES = 20_000
_DEEPEST = 40
_MOST_PARENTS = 10
_PYTHON_NAME = "tag:yaml.org,2002:python/name:"


@dataclass(frozen=True)
class SafeSettings:
    """The data settings of a site.

    Args:
        left_out: Descriptions of settings that are not used.
    """

    values: Mapping[str, Any]
    left_out: tuple[str, ...] = ()

    def warning(self, say: Sentences) -> str:
        """One sentence on the settings left out and how to use them, or ""."""
        if not self.left_out:
            return ""
        return say.line("terminal.site.left_out_settings", names=list(self.left_out))


def read_settings(root: Path) -> SafeSettings:
    """Returns the data settings of the `mkdocs.yml` of a notebook.

    Raises:
        NotebookError: The file, or one that it inherits from, is unreadable or has no settings; names file and line.
    """
    if not stays_inside(root / "notes", root):
        raise NotebookError("errors.site.link_folder", path=root / "notes")
    reader = _Reader(root)
    loaded = reader.file(root / FILE)
    values = {key: reader.setting(key, value) for key, value in loaded.items()}
    own = root / "templates" / "site"
    if own.is_dir() and any(own.iterdir()):
        reader.leave_out("templates/site")
    kept = {key: value for key, value in values.items() if value is not _NOTHING}
    if "labbook" not in (names := kept.get("plugins") or []):
        # Without labbook's plugin, MkDocs follows links and shows raw notes.
        kept["plugins"] = ["labbook", *names]
    return SafeSettings(kept, tuple(dict.fromkeys(reader.left_out)))


class _LeftOut:
    """A value that is left out."""

    def __init__(self, tag: str = "") -> None:
        self.tag = tag


_NOTHING = _LeftOut()


def _tag_placeholder(tag: str) -> object:
    """Returns the placeholder of a YAML tag that is not data."""
    name = tag.removeprefix(_PYTHON_NAME)
    if tag.startswith(_PYTHON_NAME) and name in _WORDS["functions"]:
        module, _, function = name.rpartition(".")
        with contextlib.suppress(ImportError, AttributeError):
            return getattr(import_module(module), function)
    return _LeftOut(tag.replace("tag:yaml.org,2002:", "!!")[:80])


class _Reader:
    """Reads the file and those that it inherits from, and collects the settings left out."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._values = 0
        self.left_out: list[str] = []

    def leave_out(self, what: str) -> _LeftOut:
        """Adds a description of a setting that is not used."""
        self.left_out.append(what)
        return _NOTHING

    def file(self, path: Path, parents: int = 0) -> dict[str, Any]:
        """Returns the settings in a file, merged over those that it inherits."""
        name = os.path.relpath(path, self._root)
        if not stays_inside(path, self._root):
            raise NotebookError("errors.site.link_file", path=name)
        try:
            text = path.read_bytes().decode("utf-8-sig")
            loaded = load_tagged(text, _tag_placeholder)
        except OSError as error:
            raise NotebookError(
                "errors.site.settings_not_readable",
                path=path,
                reason=error,
                root=self._root,
                advice="errors.site.settings_advice" if parents else "errors.site.init_advice",
            ) from error
        except ValueError as error:
            why = " ".join(str(error).split())
            raise NotebookError(
                "errors.site.not_yaml", name=name, reason=why, advice="errors.site.settings_advice"
            ) from error
        if loaded is None:
            return {}
        if not isinstance(loaded, dict):
            raise NotebookError("errors.site.no_settings", name=name, advice="errors.site.settings_advice")
        plain = {str(key): self._copy_plain(value, str(key), 0) for key, value in loaded.items()}
        above = plain.pop("INHERIT", _NOTHING)
        if above is _NOTHING:
            return plain
        other = Path(os.path.normpath(path.parent / str(above)))
        if parents >= _MOST_PARENTS or not stays_inside(other, self._root):
            self.leave_out(f"INHERIT: {above}")
            return plain
        return overlay(self.file(other, parents + 1), plain)

    def _copy_plain(self, value: object, place: str, depth: int) -> Any:  # noqa: ANN401 - plain data
        """Returns a copy without values left out; each use of an alias counts."""
        self._values += 1
        if self._values > _MOST_VALUES or depth > _DEEPEST:
            limits = {"most": _MOST_VALUES, "deepest": _DEEPEST}
            raise NotebookError("errors.site.too_much", name=FILE, **limits, advice="errors.site.settings_advice")
        if isinstance(value, _LeftOut):
            return self.leave_out(f"{value.tag} in {place}")
        if isinstance(value, dict):
            pairs = ((key, self._copy_plain(each, place, depth + 1)) for key, each in value.items())
            return {key: each for key, each in pairs if each is not _NOTHING}
        if isinstance(value, (list, tuple, set)):
            items = (self._copy_plain(each, place, depth + 1) for each in value)
            return [each for each in items if each is not _NOTHING]
        return value

    def setting(self, key: str, value: object) -> Any:  # noqa: ANN401 - plain data
        """Returns the value of one setting, or the placeholder of one left out."""
        if value is _NOTHING:
            return value
        if key in ("site_dir", "docs_dir", "exclude_docs", "draft_docs", "not_in_nav"):
            return value
        if key in _WORDS["text"] | _WORDS["plain"]:
            return self._without_html(value, key)
        if key == "extra" and isinstance(value, dict):
            return self._without_html(
                self._drop_options(value, lambda name: name not in _WORDS["not_in_extra"], "extra: "), key
            )
        if key == "theme":
            return self._theme(value)
        if key == "plugins":
            return self._read_names(value, self._plugin)
        if key == "markdown_extensions":
            return self._read_names(value, self._extension)
        return self.leave_out(key)

    def _theme(self, value: object) -> dict[str, Any]:
        options = value if isinstance(value, dict) else {"name": value}
        if options.get("name") != "material":
            self.leave_out(f"theme {options.get('name')}")
        rest = {key: each for key, each in options.items() if key != "name"}
        kept = self._drop_options(rest, lambda name: name in _WORDS["theme"], "theme: ")
        return {"name": "material", **self._without_html(kept, "theme")}

    def _read_names(self, value: object, one: Callable[[str, Any], Any]) -> list[Any]:
        """Returns a list of names with optional options, in one of the two shapes that MkDocs reads."""
        if isinstance(value, dict):
            value = [{key: each} for key, each in value.items()]
        found = []
        for item in value if isinstance(value, list) else []:
            name, options = next(iter(item.items()), ("", None)) if isinstance(item, dict) else (item, None)
            made = one(str(name), options if isinstance(options, dict) else {})
            if made is not _NOTHING:
                found.append({str(name): made} if made else str(name))
        return found

    def _plugin(self, name: str, options: dict[Any, Any]) -> Any:  # noqa: ANN401 - plain data
        if name not in _PLUGINS:
            return self.leave_out(f"plugin {name}")
        return self._drop_options(options, lambda key: key in _PLUGINS[name], f"plugin {name}: ")

    def _extension(self, name: str, options: dict[Any, Any]) -> Any:  # noqa: ANN401 - plain data
        if name.removeprefix("markdown.extensions.") not in _WORDS["extensions"]:
            return self.leave_out(f"extension {name}")
        return _without_folders(options)

    def _drop_options(self, options: dict[Any, Any], is_kept: Callable[[str], bool], place: str) -> dict[str, Any]:
        for key in options:
            if not is_kept(str(key)):
                self.leave_out(f"{place}{key}")
        return {str(key): value for key, value in options.items() if is_kept(str(key))}

    def _without_html(self, value: Any, place: str) -> Any:  # noqa: ANN401 - plain data
        """Returns the value with `<` and `>` escaped in texts, which the theme does not escape."""
        if isinstance(value, dict):
            return {self._without_html(key, place): self._without_html(each, place) for key, each in value.items()}
        if isinstance(value, list):
            return [self._without_html(each, place) for each in value]
        if not isinstance(value, str) or ("<" not in value and ">" not in value):
            return value
        self.leave_out(f"HTML in {place}")
        return value.replace("<", "&lt;").replace(">", "&gt;")


def _without_folders(options: dict[Any, Any]) -> dict[str, Any]:
    """Returns the options of an extension without `custom_icons`, folders from which it includes files."""
    return {
        str(key): _without_folders(value) if isinstance(value, dict) else value
        for key, value in options.items()
        if key != "custom_icons"
    }
