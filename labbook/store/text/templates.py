"""Renders Markdown pages from templates. The only module that imports Jinja2.

All values that a template prints are escaped, except results of filters and texts of words files: `{{ value }}` is
escaped for running text, `{{ value | table_cell }}` in a table, `{{ value | code_span }}` and `{{ value | fence }}` as
code. The templates of a notebook override the built-in ones and run in Jinja2's sandbox, because cloned notebooks are
not trusted.

Labels and sentences of pages are in `words/en.toml` and `words/zh.toml`, so that one template serves both languages.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labbook.errors import EntryError
from labbook.store.paths import stays_inside
from labbook.store.text import escape
from labbook.store.text.limited import LimitError, run_limited
from labbook.store.text.words_files import WordsFormatter, builtin_folder, overlay, read_words

if TYPE_CHECKING:
    from jinja2 import BaseLoader, Environment
    from jinja2.sandbox import SandboxedEnvironment

_PLAIN_NAME = re.compile(r"[^\W_]+(?:[-_.][^\W_]+)*")

LANGUAGES = ("en", "zh")

Filters = Mapping[str, Callable[..., Any]]


class Templates:
    """The templates of one notebook in one language.

    Args:
        own: The notebook's templates folder; `None` or a missing folder: built-in templates only.
        language: "en" or "zh"; its texts are available in templates as `words`.
        filters: Additional filters, for example for numbers.
    """

    def __init__(self, own: Path | None, language: str = "en", filters: Filters | None = None) -> None:
        self._own = own if own is not None and own.is_dir() else None
        self._refused: dict[str, EntryError] = {}
        self._language = language if language in LANGUAGES else "en"
        self._filters = dict(filters or {})

    @functools.cached_property
    def _has_own(self) -> bool:
        return self._own is not None and any(self._own.rglob("*.j2"))

    @functools.cached_property
    def words(self) -> dict[str, Any]:
        """Labels and sentences of the language.

        Raises:
            EntryError: The notebook's words file is invalid.
        """
        return words(self._language, self._own)

    def render(self, name: str, data: Mapping[str, Any]) -> str:
        """Render the template `name` with `data`; the notebook's template overrides the built-in one.

        Raises:
            EntryError: The notebook's own template, or words file, is broken; names file and line.
        """
        if self._own is None or not self._has_own:
            return self._render(name, data, [builtin_folder()], self.words)
        if name in self._refused:
            raise self._refused[name]
        own, texts = self._own, self.words
        try:
            return run_limited(lambda: self._render(name, data, [own, builtin_folder()], texts))
        except LimitError as error:
            # A site has hundreds of pages: do not retry the same failing template.
            self._refused[name] = EntryError(
                "errors.template.failed", path=own / name, reason=error, advice="errors.template.advice"
            )
            raise self._refused[name] from error

    def render_anyway(self, name: str, data: Mapping[str, Any]) -> tuple[str, str]:
        """Like `render`, but falls back to the built-in template if the notebook's is broken.

        Returns:
            The page, and a sentence that names the broken file and line, or "".
        """
        try:
            return self.render(name, data), ""
        except EntryError as error:
            page = self._render(name, data, [builtin_folder()], words(self._language, None))
            return page, EntryError("errors.template.replaced", problem=error).texts(self._language)[0]

    def prepare(self) -> None:
        """Load the data for the first page in advance; errors are reported by `render`."""
        own = [self._own] if self._own is not None and self._has_own else []
        with contextlib.suppress(Exception):
            _environment((*own, builtin_folder()))
        with contextlib.suppress(EntryError):
            self.words  # noqa: B018 - cached on first access

    def _render(self, name: str, data: Mapping[str, Any], folders: list[Path], texts: Mapping[str, Any]) -> str:
        import jinja2

        environment = _environment(tuple(folders))
        environment.filters.update({key: _safe_filter(made) for key, made in self._filters.items()})
        try:
            return environment.get_template(name).render({**data, "words": texts, "language": self._language})
        except EntryError:
            raise
        except jinja2.TemplateNotFound as error:
            raise EntryError("errors.template.none", name=error.name) from error
        except jinja2.TemplateSyntaxError as error:
            raise EntryError(
                "errors.template.syntax",
                path=str(error.filename or error.name),
                line=error.lineno,
                reason=error.message or "",
                advice="errors.template.advice",
            ) from error
        except Exception as error:
            where = _template_line(error)
            raise EntryError(
                "errors.template.exception",
                where=where or name,
                kind=type(error).__name__,
                reason=str(error),
                advice="errors.template.advice",
            ) from error


@functools.cache
def _safe_type() -> Any:  # noqa: ANN401 - a class that only exists once MarkupSafe is imported
    from markupsafe import EscapeFormatter, Markup

    class EscapingFormatter(WordsFormatter, EscapeFormatter):
        """Escapes the values that it fills in."""

    class Safe(Markup):
        """Escaped Markdown. Text that is formatted or joined into it is escaped."""

        __slots__ = ()

        @classmethod
        def escape(cls, value: Any) -> Safe:  # noqa: ANN401 - as the class it extends
            return cls(_escape_part(value, escape.table_cell))

        def fill(self, *args: Any, **values: Any) -> Safe:  # noqa: ANN401 - as the method it replaces
            """Fill placeholders with escaped values."""
            return type(self)(EscapingFormatter(self.escape).vformat(self, args, values))

        format = fill  # the sandbox of Jinja2 replaces methods that are named `format`

    return Safe


def _escape_part(value: Any, escaped: Callable[[str], str]) -> str:  # noqa: ANN401 - anything a template may print
    if value is None:
        return ""
    if hasattr(value, "__html__"):
        return str(value.__html__())
    return str(value) if isinstance(value, (int, float)) else escaped(str(value))


def _format_value(value: Any) -> Any:  # noqa: ANN401 - anything a template may print
    """Format a value for a template: escaped Markdown unchanged, all other text escaped for running text."""
    return _safe_type()(_escape_part(value, escape.inline))


def finished_text(markdown: str) -> Any:  # noqa: ANN401 - a string of a class that Jinja2 brings along
    """Mark Markdown as escaped, so that a template prints it unchanged. Only for text that was escaped in parts."""
    return _safe_type()(markdown)


@functools.lru_cache(maxsize=8)
def _environment(folders: tuple[Path, ...]) -> SandboxedEnvironment:
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        bytecode_cache=compiled_templates(),
        loader=jinja2.ChoiceLoader([_loader(folder) for folder in folders]),
        undefined=jinja2.StrictUndefined,
        # With autoescape, results of macros are marked as escaped; `finalize` does the escaping.
        autoescape=True,
        finalize=_format_value,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    for made in (
        *(escape.inline, escape.table_cell, escape.code_span, escape.prose, escape.fence, escape.url_path),
        plain_name,
    ):
        environment.filters[made.__name__] = _safe_filter(made)
    return environment


def _loader(folder: Path) -> BaseLoader:
    """Loads the templates of one folder; links that lead out of the notebook are not followed."""
    import jinja2

    class Inside(jinja2.FileSystemLoader):
        def get_source(self, environment: Environment, template: str) -> Any:  # noqa: ANN401 - as the class it extends
            found = super().get_source(environment, template)
            _check_link(Path(str(found[1])), folder)
            return found

    return jinja2.FileSystemLoader(str(folder)) if folder == builtin_folder() else Inside(str(folder))


def _check_link(file: Path, folder: Path) -> None:
    if not stays_inside(file, folder.parent):
        raise EntryError("errors.template.link_out", path=file, advice="errors.template.advice")


def plain_name(text: str) -> str:
    """Return a name of letters, digits and single `_`, `-` or `.` between them unchanged: it contains no markup."""
    return text if _PLAIN_NAME.fullmatch(text) else escape.inline(text)


def compiled_templates() -> Any:  # noqa: ANN401 - a class of Jinja2, or None
    """Store compiled templates in the user's cache folder, as Python does with modules; `None` if there is none.

    Cost: compiling the entry's template takes 50 to 90 ms, loading it 2 ms; measured on 2 cores, Python 3.11.
    """
    import jinja2

    class Compiled(jinja2.FileSystemBytecodeCache):
        """An optional cache: errors of a read-only or full disk are ignored."""

        def dump_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
            with contextlib.suppress(OSError):
                super().dump_bytecode(bucket)

        def load_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
            with contextlib.suppress(OSError, ValueError, EOFError, TypeError):
                super().load_bytecode(bucket)

    folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "labbook" / "templates"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Its files are executed: the folder must belong to the user.
        mine = folder.stat().st_uid == os.getuid() and not folder.stat().st_mode & 0o022
    except (OSError, RuntimeError):
        return None
    return Compiled(str(folder)) if mine else None


def _safe_filter(made: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function, so that text it returns is marked as escaped Markdown."""

    @functools.wraps(made)
    def apply_filter(value: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - a filter takes anything
        if hasattr(value, "__html__") and made.__name__ in ("inline", "table_cell"):
            return value
        result = made(value, *args, **kwargs)
        return _safe_type()(result) if isinstance(result, str) else result

    return apply_filter


def _template_line(error: BaseException) -> str:
    """Return file and line of the innermost template frame of an exception, or ""."""
    where = ""
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name.endswith((".j2", ".md", ".html")):
            where = f"{name}: line {trace.tb_lineno}"
        trace = trace.tb_next
    return where


def words(language: str, own: Path | None = None) -> dict[str, Any]:
    """Load labels and sentences of a language, as nested mappings of escaped Markdown.

    Missing texts are English; texts in the notebook's `templates/words/` override the built-in ones.

    Raises:
        EntryError: The notebook's words file is not TOML; names file and line.
    """
    mine = own / "words" / f"{language}.toml" if own is not None else None
    if mine is None or own is None or not mine.is_file():
        return dict(_load_marked_words(language))
    _check_link(mine, own)
    finished: dict[str, Any] = _mark_escaped(overlay(_all_builtin_words(language), read_words(mine)))
    return finished


@functools.cache
def _load_marked_words(language: str) -> dict[str, Any]:
    # Marking 2,000 texts takes 10 ms; an import asks for them four times a run.
    finished: dict[str, Any] = _mark_escaped(_all_builtin_words(language))
    return finished


def _all_builtin_words(language: str) -> dict[str, Any]:
    english = _builtin_words("en")
    return english if language == "en" else overlay(english, _builtin_words(language))


@functools.cache
def _builtin_words(language: str) -> dict[str, Any]:
    # Texts of entries, then of their parts, of reports and of the site's pages: `en.toml`, `en_*.toml`.
    folder = builtin_folder() / "words"
    texts = read_words(folder / f"{language}.toml")
    for path in sorted(folder.glob(f"{language}_*.toml")):
        texts = overlay(texts, read_words(path))
    return texts


def status_label(status: str, language: str) -> str:
    """Return the status of a run in a language."""
    return status if language == "en" else str(words(language)["status"].get(status, status))


def _mark_escaped(texts: Any) -> Any:  # noqa: ANN401 - nested TOML
    if isinstance(texts, Mapping):
        return {key: _mark_escaped(value) for key, value in texts.items()}
    if isinstance(texts, list):
        return [_mark_escaped(value) for value in texts]
    return _safe_type()(texts) if isinstance(texts, str) else texts
