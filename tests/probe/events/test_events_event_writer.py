"""The event file of one process: what may lie beside it, and where."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from labbook.probe.events.event_writer import EventWriter


def _writer(folder: Path) -> EventWriter:
    (folder / "events").mkdir()
    return EventWriter(str(folder), SimpleNamespace(text=str, data=lambda plain: plain))


def test_nothing_is_written_where_no_event_file_is_open(tmp_path, monkeypatch):
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    with pytest.raises(OSError, match="no event file"):
        _writer(tmp_path).open_beside(".stacks")
    assert not list(work.iterdir())


def test_a_further_file_lies_beside_the_event_file(tmp_path):
    writer = _writer(tmp_path)
    writer.open("1-2")
    descriptor, path = writer.open_beside(".stacks")
    os.close(descriptor)
    assert Path(path) == tmp_path / "events" / "1-2.stacks"
