"""The files that make a folder a notebook. Nothing that exists is overwritten; `.gitignore` is added to."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from labbook.errors import NotebookError
from labbook.frozen import dataclass
from labbook.store.config import Config, has_table, settings_text
from labbook.store.paths import NotebookPaths
from labbook.store.text.sentences import Sentences


@dataclass(frozen=True)
class ScaffoldFiles:
    """Files of a new notebook, as absolute paths.

    Args:
        files: Written or added to.
        kept: Existing files that were not changed.
    """

    files: tuple[Path, ...] = ()
    kept: tuple[Path, ...] = ()


def write_scaffold(paths: NotebookPaths, config: Config) -> ScaffoldFiles:
    """Write missing settings, empty folders, `mkdocs.yml` and `.gitignore`; returns the written files.

    Raises:
        OSError: The folder cannot be written.
        NotebookError: labbook's own template is missing.
    """
    # A folder `site` that exists before the first build is not labbook's.
    foreign_site = paths.site.exists() and not (paths.site / ".gitignore").exists()
    texts: dict[Path, Callable[[], str]] = {
        paths.settings: lambda: settings_text(config, Sentences(config.language_in_use())),
        paths.notes / ".gitkeep": lambda: "",
        paths.templates / ".gitkeep": lambda: "",
        paths.root / "mkdocs.yml": lambda: _mkdocs_text(config),
    }
    files, kept = [], []
    if _is_in_project_file(paths.root):
        kept.append(paths.root / "pyproject.toml")
        del texts[paths.settings]
    for path, text in texts.items():
        if path.name == ".gitkeep" and path.parent.is_dir() and any(path.parent.iterdir()):
            kept.append(path.parent)
        elif _create(path, text()):
            files.append(path)
        else:
            kept.append(path)
    ignored = ["/.labbook/", *([] if foreign_site else ["/site/*", "!/site/.gitignore"])]
    (files if append_lines(paths.root / ".gitignore", ignored) else kept).append(paths.root / ".gitignore")
    return ScaffoldFiles(tuple(files), tuple(kept))


def append_lines(path: Path, lines: list[str]) -> bool:
    """Append those of `lines` that a text file lacks; returns whether any were.

    Raises:
        OSError: The file cannot be written.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        data = b""
    have = {line.strip() for line in data.decode("utf-8", "surrogateescape").splitlines()}
    missing = [line for line in lines if line not in have]
    if not missing:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    newline = "\r\n" if b"\r\n" in data else "\n"
    lead = newline if data and not data.endswith(b"\n") else ""
    # Appended, not rewritten: the file may be open in an editor.
    with path.open("ab") as stream:
        stream.write((lead + "".join(line + newline for line in missing)).encode("utf-8", "surrogateescape"))
    return True


def _create(path: Path, text: str) -> bool:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
    except FileExistsError:
        return False
    return True


def _is_in_project_file(root: Path) -> bool:
    """Whether the settings are in `pyproject.toml`; a `labbook.toml` next to it would override them."""
    project = root / "pyproject.toml"
    return project.is_file() and has_table(project)


def _mkdocs_text(config: Config) -> str:
    """Fill the template of the site's settings; a JSON string is a YAML string."""
    from labbook.store.text.words_files import builtin_folder

    values = {
        "site_name": config.site_name,
        "site_url": config.site_url,
        "language": config.language_in_use(),
    }
    quoted = {name: json.dumps(value, ensure_ascii=False) for name, value in values.items()}
    return fill_template(builtin_folder() / "notebook" / "mkdocs.yml", quoted)


def fill_template(template: Path, values: Mapping[str, str]) -> str:
    """Return a template with its placeholders `{{ name }}` replaced; others, such as `${{ github.ref }}`, stay."""
    try:
        text = template.read_text("utf-8")
    except OSError as error:
        raise NotebookError("errors.template.missing", template=template) from error
    # In one pass: placeholders inside values are not replaced.
    return re.sub(r"\{\{ (" + "|".join(values) + r") \}\}", lambda found: values[found[1]], text)
