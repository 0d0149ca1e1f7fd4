"""Pages that are proposed for a report without a message."""

from __future__ import annotations

from pathlib import Path

from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.index.page_scores import nearest_pages

REPORTS = Path(__file__).resolve().parents[1] / "data" / "reports_without_message.txt"
PAGES = load_catalogue().symptoms.values()


def reports() -> list[tuple[str, str]]:
    """Family and text of each report."""
    parts = f"\n{REPORTS.read_text(encoding='utf-8')}".split("\n== ")[1:]
    return [(family, text) for family, _, text in (part.partition("\n") for part in parts)]


def test_half_of_the_reports_get_a_page_of_their_family():
    """The proposals are hints: one of three pages is of the right family for more than half of the reports."""
    found = [any(page.family == family for page in nearest_pages(text, PAGES)) for family, text in reports()]
    assert sum(found) >= len(found) / 2


def test_either_language_finds_the_page():
    for text in ("the loss is NaN from the first epoch", "训练几步之后 loss 变成 nan"):
        assert any("nan" in page.wording["en"].title.lower() for page in nearest_pages(text, PAGES)), text


def test_a_text_without_known_words_has_no_proposal():
    assert nearest_pages("", PAGES) == nearest_pages("zzz qqq", PAGES) == []


def test_a_log_without_a_failure_is_near_to_no_page():
    log = "Downloading shard 3 of 8, resumed\nepoch 2 train 0.601 val 0.598 lr 1e-4\nsaved to out/model.pt, all done\n"
    assert nearest_pages(log, PAGES) == []
