"""README, contributing guide, changelog and the sources of the docs: links, pictures, rules, words."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from urllib.parse import unquote

from order_of_tests import in_one_test

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "pages" / "images"
GENERATED = [ROOT / "docs" / "pages" / name for name in ("symptoms", "zh/symptoms", "reference", "zh/reference")]
"""Pages that are made when the site is built; `test_docs_site.py` follows links to them."""

TEXTS = [
    *(ROOT / name for name in ("README.md", "README.zh.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/README.md")),
    *sorted((ROOT / "docs" / "pages").rglob("*.md")),
]
MOST_BYTES = 300_000


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def prose(path: Path) -> str:
    """The text without fenced code."""
    return re.sub(r"^(```|~~~).*?^\1[ \t]*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


@in_one_test("path", TEXTS, ids=name_of)
def test_every_link_leads_to_a_file_and_a_heading(path):
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
        target, _, anchor = link.partition("#")
        file = (path.parent / unquote(target)).resolve() if target else path
        if re.match(r"https?://", link) or file.parent in GENERATED:
            continue
        assert file.exists(), link
        if anchor and file.suffix == ".md":
            headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", head).strip().lower().replace(" ", "-") for head in headings}, link


@in_one_test("name", ["tour", "failure", "run", "runs"])
@in_one_test("language", ["", ".zh"])
def test_pictures_are_there_and_small_and_load_nothing(name, language):
    (picture,) = IMAGES.glob(f"{name}{language}.???")
    content = picture.read_bytes()
    assert 1000 < len(content) < MOST_BYTES
    if picture.suffix == ".svg":
        text = content.decode()
        assert "<script" not in text and "url(" not in text
        assert re.findall(r"https?://[^\"' ]+", text) == ["http://www.w3.org/2000/svg"]
        # Nothing of the machine on which it was made.
        assert not re.search(r"/tmp/|/home/|/root/", text)


def test_both_readmes_show_the_same_pictures_and_commands():
    english, chinese = (path.read_text(encoding="utf-8") for path in TEXTS[:2])
    pictures = re.findall(r"images/(\w+)\.(\w+)\)", english)
    assert pictures == re.findall(r"images/(\w+)\.zh\.(\w+)\)", chinese) and len(pictures) == 3
    for command in ("make demo", "make test", "labbook record -- python train.py", "labbook fix last", "labbook init"):
        assert command in english and command in chinese


def commands_of(page: Path) -> list[str]:
    """The commands in the code of a page, without comments, prompts, quoted words and names to fill in."""
    fence = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
    blocks = fence.findall(page.read_text(encoding="utf-8"))
    lines = (re.sub(r"\s+#.*|^\$ ", "", line) for block in blocks for line in block.splitlines())
    return [re.sub(r"<[^>]+>", "<>", re.sub(r'"[^"]*"', '""', line)) for line in lines if line]


@in_one_test("page", [path for path in TEXTS if path.parent.name == "zh" and path.stem != "index"], ids=name_of)
def test_a_chinese_page_has_the_commands_of_its_english_twin_and_they_link_each_other(page):
    twin = page.parents[1] / page.name
    assert commands_of(page) == commands_of(twin)
    assert f"[English](../{page.name})" in page.read_text(encoding="utf-8")
    assert f"[中文](zh/{page.name})" in twin.read_text(encoding="utf-8")
    assert f"zh/{page.name}\n" in (ROOT / "docs/mkdocs.yml").read_text(encoding="utf-8")
    # A line break inside a paragraph shows as a space between Chinese characters.
    assert not re.search(r"[\u3000-\u9fff\uff00-\uffef]\n[^\s|#!\d>-]", prose(page))


def test_targets_that_the_texts_name_are_in_the_makefile():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for path in TEXTS:
        named = set(re.findall(r"(?:^|`)make ([a-z-]+)", path.read_text(encoding="utf-8"), re.MULTILINE))
        assert named <= targets, (path, named - targets)


def test_files_that_the_guides_for_developers_name_exist():
    for path in (
        ROOT / "CONTRIBUTING.md",
        ROOT / "docs" / "pages" / "contribute.md",
        ROOT / "docs" / "pages" / "inside.md",
    ):
        named = set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py|(?:labbook|tests|templates|docs)/[a-z_/]*)`", prose(path)))
        assert named
        assert not [name for name in named if not (ROOT / name).exists() and not (ROOT / "labbook" / name).exists()]


def test_the_floors_of_the_docs_are_those_of_the_house():
    spec = importlib.util.spec_from_file_location("house_rules", ROOT / "tests" / "test_house.py")
    house = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(house)
    text = (ROOT / "docs" / "pages" / "inside.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| ([^|]+) \|", text, re.MULTILINE)
    floors = {Path(name).stem: int(floor) for floor, names in rows for name in re.findall(r"`([^`]+)`", names)}
    assert floors == {name: floor for name, floor in house.FLOORS.items() if not name.startswith("__")}


def test_the_docs_count_the_rules_of_the_review():
    from labbook.review.reviewer import RULES

    text = (ROOT / "docs" / "pages" / "review.md").read_text(encoding="utf-8")
    assert f"all {len(RULES)} rules" in text


def test_every_option_of_recording_that_the_docs_name_exists():
    from labbook.commands.record import command

    known = {name for parameter in command.params for name in parameter.opts}
    text = (ROOT / "docs" / "pages" / "health.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`(--[a-z-]+)", text)) <= known


def test_the_changelog_has_one_line_an_item_in_the_usual_groups():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    groups = set(re.findall(r"^### (.+)$", text, re.MULTILINE))
    assert groups <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    items = re.split(r"^- ", text, flags=re.MULTILINE)[1:]
    assert max(len(" ".join(item.split("\n\n")[0].split())) for item in items) <= 240
