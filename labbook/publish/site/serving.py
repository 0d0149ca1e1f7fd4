"""Serves a built site on this machine, and reloads open pages after changes.

The server listens on the loopback address, serves files of one folder, accepts only host names of this machine (against
DNS rebinding), and answers only GET and HEAD.
"""

from __future__ import annotations

import http.server
import json
import mimetypes
import re
import socket
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

HOST = "127.0.0.1"
"""Loopback only: other machines cannot connect."""

_OWN_NAMES = {"127.0.0.1", "localhost", "[::1]"}
_LIVE = "/_labbook/live.js"
_STATE = "/_labbook/state"
_RUN = "/_labbook/run/"
_LONGEST_ANSWER_S = 20.0
_TYPES = {
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".json": "application/json",
    ".wasm": "application/wasm",
    ".svg": "image/svg+xml",
    ".csv": "text/csv",
    ".xml": "application/xml",
}
LIVE_SCRIPTS = (Path(__file__).with_name("live_reload.js"), Path(__file__).with_name("running_runs.js"))

View = Callable[[str], Mapping[str, str] | None]
"""Id of a run -> what is known of it while it goes on, with its `curves` as SVG; `None` when it has ended."""


class Builds:
    """Counts the builds of a site; other threads can wait for the next one."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def count_build(self) -> None:
        """Counts a finished build."""
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def wait_for_build(self, seen: int, longest_s: float = _LONGEST_ANSWER_S) -> int:
        """Returns the number of builds when it differs from `seen`, or after `longest_s` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._count != seen, longest_s)
            return self._count


def find_site_file(site: Path, target: str) -> Path | None:
    """Returns the file of a site for a request, or `None`.

    Args:
        target: Raw target of the request: `/runs/x%20y.html?q=1`; decoded once.
    """
    try:
        path = unquote_to_bytes(re.split(r"[?#]", target, maxsplit=1)[0]).decode("utf-8")
    except ValueError:
        return None
    parts = [part for part in path.split("/") if part]
    if not path.startswith("/") or any(part.startswith(".") for part in parts) or any(c in path for c in "\0\\"):
        return None
    try:
        top = site.resolve()
        found = top.joinpath(*parts).resolve()
        if found.is_dir():
            found = (found / "index.html").resolve()
        # Links that lead out of the site are not followed.
        return found if found.is_relative_to(top) and found.is_file() else None
    except (OSError, ValueError, RuntimeError):
        return None


def is_own_name(host: str) -> bool:
    """Whether the `Host` of a request is a name of this machine, with or without a port."""
    name, colon, port = host.strip().lower().rpartition(":")
    if not colon or not port.isdigit():
        name = host.strip().lower()
    return name in _OWN_NAMES


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers one connection."""

    server: SiteServer
    protocol_version = "HTTP/1.1"
    server_version = "labbook"
    sys_version = ""
    timeout = 60

    def do_GET(self) -> None:
        """Sends a file."""
        self._answer()

    def do_HEAD(self) -> None:
        """Sends the headers of a file."""
        self._answer()

    def log_message(self, *_: object) -> None:
        """Logs nothing."""

    def _answer(self) -> None:
        if not is_own_name(self.headers.get("Host", "")):
            self._send(
                HTTPStatus.MISDIRECTED_REQUEST, b"this server answers to 127.0.0.1 and localhost\n", "text/plain"
            )
            return
        path = urlsplit(self.path).path
        if path == _LIVE:
            self._send(HTTPStatus.OK, b"\n".join(script.read_bytes() for script in LIVE_SCRIPTS), "text/javascript")
        elif path == _STATE:
            seen = urlsplit(self.path).query.removeprefix("after=")
            built = self.server.builds.wait_for_build(int(seen) if seen.lstrip("-").isdigit() else -1)
            self._send(HTTPStatus.OK, json.dumps({"built": built}).encode(), "application/json")
        elif path.startswith(_RUN):
            self._send_view(path.removeprefix(_RUN))
        else:
            self._send_file(path)

    def _send_view(self, name: str) -> None:
        """Sends what is known of a run that goes on, as JSON, or its curves."""
        run, _, ending = name.partition(".")
        view = self.server.view(run) if self.server.view is not None and ending in ("json", "svg") else None
        if view is None:
            self._send(HTTPStatus.NOT_FOUND, b"this run does not go on here\n", "text/plain")
        elif ending == "svg":
            self._send(HTTPStatus.OK, view["curves"].encode("utf-8", "replace"), "image/svg+xml")
        else:
            shown = {key: value for key, value in view.items() if key != "curves"} | {"drawn": bool(view["curves"])}
            self._send(HTTPStatus.OK, json.dumps(shown).encode(), "application/json")

    def _send_file(self, path: str) -> None:
        file = find_site_file(self.server.site, self.path)
        if file is not None and not path.endswith("/") and file.name == "index.html" and not path.endswith(".html"):
            # Without the slash, relative addresses in the page would be wrong.
            self._send(HTTPStatus.MOVED_PERMANENTLY, b"", "text/plain", {"Location": f"{path}/".replace("//", "/")})
            return
        status = HTTPStatus.OK if file is not None else HTTPStatus.NOT_FOUND
        shown = file or find_site_file(self.server.site, "/404.html")
        try:
            if shown is None:
                raise FileNotFoundError
            content, state = shown.read_bytes(), shown.stat()
        except OSError:
            self._send(HTTPStatus.NOT_FOUND, b"there is no such page\n", "text/plain")
            return
        written = state.st_mtime_ns // 1_000_000
        kind = _TYPES.get(shown.suffix.lower()) or mimetypes.guess_type(shown.name)[0] or "application/octet-stream"
        if kind == "text/html":
            content = content.replace(b"</body>", f'<script src="{_LIVE}" defer></script></body>'.encode(), 1)
        tag = f'"{state.st_size:x}-{state.st_mtime_ns:x}"'
        more = {"ETag": tag, "X-Written-Ms": str(written)}
        if status == HTTPStatus.OK and self.headers.get("If-None-Match") == tag:
            self._send(HTTPStatus.NOT_MODIFIED, b"", kind, more)
            return
        self._send(status, content, kind, more)

    def _send(self, status: HTTPStatus, content: bytes, kind: str, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        text = kind.startswith("text/") or kind in ("application/json", "application/xml", "image/svg+xml")
        self.send_header("Content-Type", f"{kind}; charset=utf-8" if text else kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-cache")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Content-Security-Policy", "frame-ancestors 'none'")
        for name, value in (more or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD" and status != HTTPStatus.NOT_MODIFIED:
            self.wfile.write(content)


class SiteServer(http.server.ThreadingHTTPServer):
    """Serves one folder on the loopback address.

    Args:
        port: Port; 0 for any free one.
        view: Looks at runs that go on.

    Raises:
        OSError: The port is taken.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port: int, site: Path, builds: Builds, view: View | None = None) -> None:
        self.view = view
        self.site = site
        self.builds = builds
        super().__init__((HOST, port), _Handler)

    def server_bind(self) -> None:
        """Binds without a DNS query for the name of this machine."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = HOST, self.server_address[1]

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignores closed connections."""
