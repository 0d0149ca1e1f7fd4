"""Passes the words of a script to its page as an attribute."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from typing import Any

from labbook.store.text.templates import Templates, finished_text


def script_words(templates: Templates, *sections: str, **more: str) -> Any:  # noqa: ANN401 - finished text of Jinja2
    """Returns sections of the words as one JSON object, for `data-words="..."`.

    Statuses are `status_<name>`, verdicts are `verdict_<name>`.

    Args:
        sections: Names of sections; later ones override.
    """
    labels: dict[str, str] = {f"status_{name}": str(word) for name, word in templates.words["status"].items()}
    labels |= {f"verdict_{name}": str(word) for name, word in templates.words["run_verdict"].items()}
    for section in sections:
        found: Mapping[str, Any] = templates.words[section]
        labels |= {name: str(word) for name, word in found.items() if isinstance(word, str)}
    return finished_text(attribute(json.dumps(labels | more, ensure_ascii=False)))


def attribute(text: str) -> str:
    """Returns `text` for an attribute in double quotes, inert for Markdown and macros."""
    encoded = html.escape(" ".join(text.split()))
    return "".join(f"&#{ord(char)};" if char in "{}`*_[]\\|~" else char for char in encoded)
