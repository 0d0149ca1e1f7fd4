from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import urllib.request
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from site_settings import write_site_settings

from labbook.errors import NotebookError, UsageError
from labbook.publish.site.serving import HOST
from labbook.publish.site.site_build import _free_port, build_site

pytestmark = pytest.mark.process

RUN, OTHER = "20261121-153012-k3f9", "20261120-100000-aaaa"
EVIL = (
    '<script>alert(1)</script><img src=x onerror=alert(2)> "><svg onload=alert(3)> [x](javascript:alert(4)) '
    "<https://evil.example> ![i](https://evil.example/i.png) {{ config }} {% raise %} "
    '--8<-- "secret.txt" </code></pre> -->'
)


@pytest.fixture
def book(notes):
    write_site_settings(notes.folder)
    return notes


class Active(HTMLParser):
    """Collects what acts on a page: scripts, handlers, addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.text = ""
        self.links: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag in ("script", "iframe", "object", "embed", "base", "form"):
            self.found.append(f"{tag} {dict(attrs).get('src', '')}")
        for name, value in attrs:
            if name.startswith("on"):
                self.found.append(f"{tag} {name}")
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src"):
                self.links.append(value or "")
                if (value or "").split(":")[0].strip().lower() in ("javascript", "data", "vbscript"):
                    self.found.append(f"{tag} {name}={value}")

    def handle_data(self, data):
        self.text += data


def page(folder: Path, path: str) -> Active:
    parsed = Active()
    parsed.feed((folder / path).read_text(encoding="utf-8"))
    return parsed


def test_the_site_of_a_notebook(book):
    book.run(OTHER, "alpha", author="Wei")
    folder = book.run(RUN, f"![loss]({RUN}/curves.svg)\n\n[points]({RUN}/metrics.csv)").with_suffix("")
    folder.mkdir()
    for name in ("curves.svg", "metrics.csv", "run.json"):
        (folder / name).write_text("x")
    book.page("ideas.md", "# Ideas\n\nmine\n")

    built = build_site(book.notebook)

    assert built.warnings == () and built.folder == book.folder / "site"
    run = page(built.folder, f"runs/2026/11/21/{RUN}.html")
    assert "curves.svg" in " ".join(run.links)
    for link in run.links:
        if link and not link.startswith(("http", "#")):
            target = (built.folder / "runs/2026/11/21" / link.split("#")[0]).resolve()
            assert target.exists() or target.with_suffix(".html").exists(), link
    assert f"../20/{OTHER}.html" in run.links and "Previous run" in run.text
    assert not (built.folder / "runs/2026/11/21" / RUN / "run.json").exists()
    home = page(built.folder, "index.html")
    assert "ideas.html" in home.links and f"runs/2026/11/21/{RUN}.html" in home.links
    assert "alpha" in page(built.folder, f"runs/2026/11/20/{OTHER}.html").text


def test_code_keeps_its_indentation_and_copies_of_jupyter_are_no_pages(book):
    code = "for i in range(3):\n    train(i)\n\n    print(i)"
    entry = book.run(RUN, f"```python\n{code}\n```\n\n```text\n  two\n```", symptoms=["loss_nan"])
    copy = entry.parent / ".ipynb_checkpoints" / f"{RUN}-checkpoint.md"
    copy.parent.mkdir()
    copy.write_text(entry.read_text("utf-8"))

    built = build_site(book.notebook)

    text = page(built.folder, f"runs/2026/11/21/{RUN}.html").text
    assert code in text and "\n  two\n" in text
    assert built.warnings == () and not list(built.folder.rglob("*checkpoint*"))


def test_the_site_has_the_name_in_the_settings_of_the_notebook(book):
    book.run(RUN, "text")
    settings, notebook = book.folder / "mkdocs.yml", book.notebook.config
    for written, title, name in (("", "Mine", "Mine"), ("Lab notebook", "Mine", "Mine"), ("Team", "Mine", "Team")):
        assert replace(notebook, title=title).name_of_site(written) == name
        assert replace(notebook, title=title, site_name="Named").name_of_site(written) == {"Team": "Team"}.get(
            name, "Named"
        )
    settings.write_text(settings.read_text().replace('site_name: "Team"', 'site_name: ""'))
    (book.folder / "labbook.toml").write_text('title = "Vision group"\n')
    built = build_site(book.notebook)
    assert "Vision group</title>" in (built.folder / f"runs/2026/11/21/{RUN}.html").read_text()


def test_nothing_is_fetched_from_another_host(book):
    book.run(RUN, "text")
    built = build_site(book.notebook)

    for file in built.folder.rglob("*.html"):
        parsed = page(built.folder, str(file.relative_to(built.folder)))
        assert not [link for link in parsed.links if link.startswith(("http:", "https:", "//"))], file


def test_hostile_text_is_inert_on_every_page(book):
    from labbook.store.text import escape

    (book.folder / "notes").mkdir(exist_ok=True)
    (book.folder / "notes" / "secret.txt").write_text("SECRET")
    clean = book.run(OTHER)
    built = build_site(book.notebook)
    usual = {found for file in built.folder.rglob("*.html") for found in page(built.folder, str(file)).found}
    clean.unlink()
    body = (
        f"{escape.inline(EVIL)}\n\n| a |\n|---|\n| {escape.table_cell(EVIL)} |\n\n{escape.code_span(EVIL)}\n\n"
        f"<details><summary>s</summary>\n\n{escape.fence(EVIL + chr(10) + '```' + chr(10) + '# x', 'text')}\n\n"
        "</details>\n"
    )
    book.run(
        RUN, body, title=EVIL, author=EVIL, experiment=EVIL, tags=[EVIL], symptoms=[EVIL], metrics={EVIL: {"last": 1}}
    )
    file = book.folder / f"notes/runs/2026/11/21/{RUN}.md"
    file.write_text(file.read_text().replace(f"# {EVIL}", f"# {escape.inline(EVIL)}"))

    built = build_site(book.notebook)

    for name in ("index.html", "runs/index.html", "runs/2026/11/index.html", f"runs/2026/11/21/{RUN}.html", "404.html"):
        parsed = page(built.folder, name)
        here = {re.sub(r" (\.\./|/)*", " ", found) for found in parsed.found}
        assert here <= {re.sub(r" (\.\./|/)*", " ", found) for found in usual}, (name, here)
        assert not [link for link in parsed.links if "evil.example" in link], name
        assert "SECRET" not in parsed.text
    shown = page(built.folder, f"runs/2026/11/21/{RUN}.html").text
    assert shown.count("<script>alert(1)</script>") >= 4 and "{{ config }}" in shown


def test_no_entry_stops_the_build(book):
    book.run(OTHER, "fine")
    book.page("runs/2026/11/21/broken.md", "---\nid: [\n---\n# broken\n")
    book.page(f"runs/2026/11/21/{RUN}.md", b"\xff\xfe\x00 no text \x80")
    book.page("runs/2026/11/21/nested.md", "- " * 10_000 + "x")
    book.page("runs/2026/11/21/brackets.md", "[" * 20_000)
    book.page("runs/2026/11/21/empty.md", "")
    book.page("runs/2026/11/21/half.md", "---\nid: 2026")
    book.page("runs/2026/11/21/mark up & <b>.md", "# odd name\n")
    book.page("experiments/exp001_x_dynamic.md", "---\ntitle: [\n---\n")
    book.page("reports/2026-W40.md", "---\nruns: {a: 1}\ntitle: [1]\n---\n# r\n")
    book.page("note: with colon.md", "Key: value\nOther: value\n\ntext\n")

    built = build_site(book.notebook)

    assert "fine" in page(built.folder, f"runs/2026/11/20/{OTHER}.html").text
    assert "broken" in page(built.folder, "runs/2026/11/21/broken.html").text
    assert "no text" in page(built.folder, f"runs/2026/11/21/{RUN}.html").text
    assert "Key: value" in page(built.folder, "note: with colon.html").text
    assert any("broken.md" in warning and "line" in warning for warning in built.warnings)
    assert "broken.md" in page(built.folder, "index.html").text
    missing = page(built.folder, "404.html")
    assert "There is no page here" in missing.text and any("runs/index.html" in link for link in missing.links)


def test_files_of_others_in_the_site_stay(book):
    (book.folder / "site").mkdir()
    ignore = book.folder / "site" / ".gitignore"
    ignore.write_text("*\n!.gitignore\n")
    (book.folder / "site" / "old.html").write_text("old")

    build_site(book.notebook)

    assert ignore.read_text() == "*\n!.gitignore\n"
    assert (book.folder / "site" / "old.html").read_text() == "old"


def test_an_experiment_shows_its_runs(book):
    book.page(
        "experiments/exp001_x_dynamic.md",
        "# X\n\n<!-- labbook:begin runs -->\n\nNone yet.\n\n<!-- labbook:end runs -->\n",
    )
    book.run(RUN, experiment="exp001_x_dynamic")

    built = build_site(book.notebook)

    parsed = page(built.folder, "experiments/exp001_x_dynamic.html")
    assert "None yet" not in parsed.text and f"../runs/2026/11/21/{RUN}.html" in parsed.links


def test_pages_that_people_wrote_come_first(book):
    book.run(RUN)
    book.page("index.md", "# Our own home\n")

    built = build_site(book.notebook)

    assert "Our own home" in page(built.folder, "index.html").text


def test_chinese_pages_have_anchors(book):
    file = book.folder / "mkdocs.yml"
    assert 'language: "en"' in file.read_text(), "the setting of the notebook decides"
    (book.folder / "labbook.toml").write_text('language = "zh"\n')
    book.run(RUN, "## 未观察到的内容\n\n[去](#未观察到的内容)\n")

    built = build_site(book.notebook)

    assert "本周" in page(built.folder, "index.html").text
    run = page(built.folder, f"runs/2026/11/21/{RUN}.html")
    assert "未观察到的内容" in run.ids and built.warnings == ()


def test_directory_addresses_work_too(book):
    file = book.folder / "mkdocs.yml"
    file.write_text(file.read_text().replace("use_directory_urls: false", "use_directory_urls: true"))
    folder = book.run(RUN, f"![loss]({RUN}/curves.svg)").with_suffix("")
    folder.mkdir()
    (folder / "curves.svg").write_text("x")

    built = build_site(book.notebook)

    assert "curves.svg" in page(built.folder, f"runs/2026/11/21/{RUN}/index.html").links
    assert (built.folder / "runs/2026/11/21" / RUN / "curves.svg").exists()


def test_plain_mkdocs_does_the_same(book, all_symptoms):
    book.run(RUN, "text")
    ours = build_site(book.notebook).folder
    kept = {path.relative_to(ours): path.read_text() for path in ours.rglob("*.html")}
    shutil.rmtree(ours)

    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    done = subprocess.run(command, cwd=book.folder, capture_output=True, text=True, timeout=100)

    assert done.returncode == 0, done.stderr
    assert {path.relative_to(ours): path.read_text() for path in ours.rglob("*.html")} == kept


def test_what_cannot_be_built_is_told_in_one_line(book):
    settings = book.folder / "mkdocs.yml"
    settings.write_text("site_name: [\n")
    with pytest.raises(NotebookError, match="cannot build"):
        build_site(book.notebook)
    settings.write_text("site_name: x\nplugins: [no-such-plugin]\n")
    with pytest.raises(NotebookError, match="cannot build"):
        build_site(book.notebook, trusted=True)
    settings.write_text("site_name: x\ndocs_dir: other\nplugins: [labbook]\n")
    (book.folder / "other").mkdir()
    with pytest.raises(NotebookError, match="docs_dir"):
        build_site(book.notebook)
    settings.unlink()
    with pytest.raises(NotebookError, match=r"mkdocs\.yml") as caught:
        build_site(book.notebook)
    assert "labbook init" in caught.value.hint


def test_without_the_extra_the_install_line_is_told(book):
    """In an interpreter that cannot see the libraries: a path that holds all others."""
    code = (
        "import sys\n"
        "from importlib.machinery import PathFinder\n"
        "class Hiding:\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        hidden = name.split('.')[0] in ('mkdocs', 'material', 'watchdog')\n"
        "        return None if hidden else PathFinder.find_spec(name, path, target)\n"
        "sys.meta_path[sys.meta_path.index(PathFinder)] = Hiding\n"
        "from labbook.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    for verb in (["site", "build"], ["watch"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *verb], cwd=book.folder, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 2, done.stderr
        assert "pip install" in done.stderr and "mkdocs-material" in done.stderr and "Traceback" not in done.stderr


def test_a_taken_port_is_told():
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=str(port)):
            _free_port(port)


def test_the_preview_follows_the_notes_and_listens_on_this_machine_only(book):
    book.run(RUN, "first text")
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "labbook", "site", "serve", "--port", str(port)],
        cwd=book.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    address = f"http://{HOST}:{port}/runs/2026/11/21/{RUN}.html"
    try:
        assert f"http://{HOST}:{port}/" in process.stdout.readline()
        _wait_for(address, "first text")
        with Path("/proc/net/tcp").open() as table:
            listening = [line.split()[1] for line in table if line.split()[3] == "0A"]
        assert [entry for entry in listening if entry.endswith(f":{port:04X}")] == [f"0100007F:{port:04X}"]
        book.run(RUN, "second text")
        _wait_for(address, "second text")
    finally:
        process.terminate()
        process.wait(90)
        process.stdout.close()


def _wait_for(address: str, text: str) -> None:
    import time

    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                if text in answer.read().decode():
                    return
        except OSError:
            pass
        time.sleep(0.2)
    raise AssertionError(f"{address} never showed {text!r}")
