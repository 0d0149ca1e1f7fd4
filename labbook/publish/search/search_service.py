"""Runs the program of Pagefind directly: its Python client waits 0.1 s for every answer.

The protocol is that of `pagefind --service`: requests and answers are JSON in base64, each followed by a comma.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from queue import Empty, Queue
from types import TracebackType
from typing import Any

_PATIENCE_S = 120.0
"""Longest wait for an answer. Source: chosen by us; the program answers within milliseconds."""


class PagefindError(Exception):
    """Pagefind failed; the message is its own."""


def program() -> Path | None:
    """Returns the program of the package `pagefind[bin]`, or `None` if it is not installed."""
    found: Path | None
    if "PAGEFIND_BINARY_PATH" not in os.environ:
        # As in its own client, whose import takes 20 ms.
        for name in ("pagefind_bin_extended", "pagefind_bin"):
            with suppress(ImportError):
                found = import_module(name).get_executable()
                return found
    try:
        from pagefind.service import get_executable
    except ImportError:
        return None
    found = get_executable()
    return found


class Service:
    """One running program, which builds several indexes."""

    def __init__(self) -> None:
        self._answers: Queue[Mapping[str, Any] | None] = Queue()
        self._sent = 0

    def __enter__(self) -> Service:
        path = program()
        if path is None:
            raise PagefindError("pagefind is not installed")
        self._process = subprocess.Popen(
            [str(path), "--service"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(10)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                # Unsent requests to a program that has ended are dropped.
                with suppress(OSError):
                    stream.close()

    def index(self, records: Sequence[Mapping[str, Any]]) -> dict[str, bytes]:
        """Returns the files of an index of these records, by path.

        Args:
            records: Requests of the type AddRecord, without `index_id`.

        Raises:
            PagefindFailed: The program ended, did not answer, or refused a record.
        """
        number = self._ask([{"type": "NewIndex", "config": {}}])[0]["index_id"]
        # Answers come in any order, all of them before the files are requested.
        self._ask([{**record, "index_id": number} for record in records])
        files = self._ask([{"type": "GetFiles", "index_id": number}])[0]["files"]
        self._ask([{"type": "DeleteIndex", "index_id": number}])
        return {file["path"]: base64.b64decode(file["content"]) for file in files}

    def _ask(self, payloads: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Sends requests and waits for all answers."""
        assert self._process.stdin is not None
        try:
            for payload in payloads:
                self._sent += 1
                request = json.dumps({"message_id": self._sent, "payload": payload}, ensure_ascii=False)
                self._process.stdin.write(base64.b64encode(request.encode("utf-8", "replace")) + b",")
            self._process.stdin.flush()
        except OSError as error:
            raise PagefindError(f"pagefind ended: {error.strerror or error}") from error
        answers = []
        for _ in payloads:
            try:
                answer = self._answers.get(timeout=_PATIENCE_S)
            except Empty:
                raise PagefindError(f"pagefind said nothing for {_PATIENCE_S:.0f} s") from None
            if answer is None:
                raise PagefindError("pagefind ended before it was done")
            payload = answer.get("payload") or {}
            if payload.get("type") == "Error":
                raise PagefindError(f"pagefind: {str(payload.get('message'))[:200]}")
            answers.append(payload)
        return answers

    def _read(self) -> None:
        assert self._process.stdout is not None
        kept: list[bytes] = []
        while piece := os.read(self._process.stdout.fileno(), 1 << 20):
            *ended, rest = piece.split(b",")
            for end in ended:
                try:
                    self._answers.put(json.loads(base64.b64decode(b"".join([*kept, end]))))
                except (ValueError, binascii.Error):
                    self._answers.put({"payload": {"type": "Error", "message": "an answer that is not JSON"}})
                kept = []
            kept.append(rest)
        self._answers.put(None)
