"""Writes code blocks of plain text as Pygments does, without calling it."""

from __future__ import annotations

from typing import Any

from pymdownx.highlight import Highlight  # type: ignore[import-untyped]

_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_MARK = "here"
_SAMPLE = "\n\n  a & <b> \"c\" 'd' {e}\t\u2028f\n\n\ng "

_frames: dict[str, tuple[str, str] | None] = {}
"""Settings of a block -> HTML before and after its text; `None` if Pygments is needed."""


class PlainBlocks(Highlight):  # type: ignore[misc]
    """The highlighter of code blocks, with a short cut for plain text."""

    def highlight(self, src: str, language: str, css_class: str = "highlight", **options: Any) -> Any:  # noqa: ANN401
        """Returns the HTML of a block."""
        plain = language == "text" and not options.get("inline") and "\r" not in src and not src.startswith("\ufeff")
        text = src.strip("\n") if plain and self.use_pygments else ""
        if not text.strip():
            return super().highlight(src, language, css_class, **options)
        # The HTML depends on the number of the block only if its lines have anchors.
        counted = self.line_spans or self.line_anchors
        key = "" if counted else repr([vars(self), css_class, {**options, "code_block_count": 0}])
        if key and key not in _frames:
            _frames[key] = self._frame(css_class, options)
        frame = _frames.get(key)
        if frame is None:
            return super().highlight(src, language, css_class, **options)
        return f"{frame[0]}{text.translate(_ESCAPED)}\n{frame[1]}"

    def _frame(self, css_class: str, options: dict[str, Any]) -> tuple[str, str] | None:
        before, mark, after = str(super().highlight(_MARK, "text", css_class, **options)).partition(f"{_MARK}\n")
        sample = f"{before}{_SAMPLE.strip(chr(10)).translate(_ESCAPED)}\n{after}"
        return (before, after) if mark and sample == super().highlight(_SAMPLE, "text", css_class, **options) else None
