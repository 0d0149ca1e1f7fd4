"""The `mkdocs.yml` of a new notebook, as `labbook init` fills it in."""

from __future__ import annotations

from pathlib import Path

SITE_TEMPLATES = Path(__file__).parents[1] / "templates" / "site"
SETTINGS = Path(__file__).parents[1] / "templates" / "notebook" / "mkdocs.yml"


def write_site_settings(folder: Path, language: str = "en", more: str = "") -> None:
    """Writes the settings of a site with the title "Team"; `more` is added at their end."""
    text = SETTINGS.read_text()
    for word, value in (("{{ site_name }}", '"Team"'), ("{{ site_url }}", '""'), ("{{ language }}", f'"{language}"')):
        text = text.replace(word, value)
    (folder / "mkdocs.yml").write_text(text + more)
