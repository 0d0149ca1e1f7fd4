"""The server of `labbook serve`: files of the site and nothing else, on this machine and to nobody else."""

from __future__ import annotations

import http.client
import json
import os
import threading
import time

import pytest
from site_settings import write_site_settings

from labbook.publish.plugin import LabbookPlugin
from labbook.publish.site.serving import Builds, SiteServer, find_site_file, is_own_name
from labbook.publish.site.site_build import build_site

pytestmark = pytest.mark.process
"""Most tests connect to a server; some start one."""


@pytest.fixture
def site(tmp_path):
    top = tmp_path / "site"
    (top / "runs" / "deep").mkdir(parents=True)
    (top / "index.html").write_text("<html><body>home</body></html>")
    (top / "404.html").write_text("<html><body>not there</body></html>")
    (top / "runs" / "index.html").write_text("runs")
    (top / "runs" / "损失 a&b.html").write_text("named")
    (top / ".hidden").write_text("SECRET")
    (top / "runs" / ".git").mkdir()
    (top / "runs" / ".git" / "config").write_text("SECRET")
    (tmp_path / "secret.txt").write_text("SECRET")
    (tmp_path / "site-other").mkdir()
    (tmp_path / "site-other" / "x.html").write_text("SECRET")
    os.symlink(tmp_path / "secret.txt", top / "link.txt")
    os.symlink(tmp_path, top / "out")
    return top


@pytest.fixture
def served(site):
    builds = Builds()
    server = SiteServer(0, site, builds)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()

    def ask(path: str, method: str = "GET", **headers: str):
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=90)
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer, body

    ask.builds = builds
    yield ask
    server.shutdown()
    server.server_close()
    thread.join(10)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("/", "index.html"),
        ("/index.html?q=<script>", "index.html"),
        ("/runs/", "runs/index.html"),
        ("//runs//index.html", "runs/index.html"),
        ("/runs/%E6%8D%9F%E5%A4%B1%20a&b.html", "runs/损失 a&b.html"),
        ("/runs", "runs/index.html"),
        ("/nothing.html", ""),
    ],
)
def test_files_of_the_site(site, target, name):
    found = find_site_file(site, target)
    assert (found.relative_to(site.resolve()).as_posix() if found else "") == name


@pytest.mark.parametrize(
    "target",
    [
        *("/../secret.txt", "/%2e%2e/secret.txt", "/%2e%2e%2fsecret.txt", "/..%2fsecret.txt", "/runs/../../secret.txt"),
        *(
            "/%252e%252e/secret.txt",
            "/..%255csecret.txt",
            "/..\\secret.txt",
            "/%5c..%5csecret.txt",
            "/....//secret.txt",
        ),
        *("/link.txt", "/out/secret.txt", "/out/site-other/x.html", "/../site-other/x.html", "/.hidden"),
        *("/runs/.git/config", "/%2ehidden", "/index.html%00.txt", "/%ff", "secret.txt", "../secret.txt", ""),
        *("/%c0%ae%c0%ae/secret.txt", "file:///etc/passwd", "//etc/passwd", "/runs/" + "../" * 20 + "etc/passwd"),
        "/" + "a" * 5000,
    ],
)
def test_nothing_else(site, target):
    assert find_site_file(site, target) is None


def test_pages_follow_and_say_what_they_are(served):
    answer, body = served("/")

    assert answer.status == 200 and body.startswith('<html><body>home<script src="/_labbook/live.js" defer>')
    assert answer.getheader("X-Content-Type-Options") == "nosniff" and int(answer.getheader("X-Written-Ms")) > 1e12
    assert served("/", If_None_Match=answer.getheader("ETag"))[0].status == 304
    assert served("/_labbook/live.js")[0].getheader("Content-Type").startswith("text/javascript")
    missing, body = served("/missing.html")
    assert missing.status == 404 and "not there" in body
    assert served("/runs")[0].getheader("Location") == "/runs/"
    assert served("/", "HEAD")[1] == ""


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"])
def test_it_changes_nothing(served, method):
    assert served("/", method)[0].status == 501


@pytest.mark.parametrize(
    ("host", "own"),
    [
        *(("127.0.0.1", True), ("127.0.0.1:8000", True), ("localhost:8000", True), ("LOCALHOST", True)),
        *(("[::1]:8000", True), ("evil.example", False), ("evil.example:8000", False), ("", False)),
        *(("127.0.0.1.evil.example", False), ("localhost:x", False), ("127.0.0.1:80:80", False)),
    ],
)
def test_it_answers_to_the_names_of_this_machine(served, host, own):
    assert is_own_name(host) == own
    answer, body = served("/", Host=host)
    assert (answer.status == 200) == own and ("home" in body) == own


def test_what_waits_hears_of_the_next_build(served):
    assert json.loads(served("/_labbook/state?after=-1")[1]) == {"built": 0}
    heard = []
    waiting = threading.Thread(target=lambda: heard.append(json.loads(served("/_labbook/state?after=0")[1])))
    waiting.start()
    time.sleep(0.3)
    assert heard == []

    served.builds.count_build()

    waiting.join(60)
    assert heard == [{"built": 1}]
    assert json.loads(served("/_labbook/state?after=nonsense")[1]) == {"built": 1}


@pytest.mark.process
def test_pages_are_told_of_before_the_search_is_ready(notes, monkeypatch):
    """An open page follows in the time that pages take."""
    write_site_settings(notes.folder)
    run = "20261121-153012-k3f9"
    notes.run(run, "alone")
    said = []
    finish = LabbookPlugin.finish
    monkeypatch.setattr(LabbookPlugin, "finish", lambda *given: said.append("search") or finish(*given))
    page = notes.folder / "site" / f"runs/2026/11/21/{run}.html"

    build_site(notes.notebook, workers=1, on_pages_ready=lambda: said.append(f"shown {page.is_file()}"))

    assert said == ["shown True", "search"]
