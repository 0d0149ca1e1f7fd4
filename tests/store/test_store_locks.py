from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from labbook.store.commit import sync_state
from labbook.store.json_files import read_json_object
from labbook.store.locks import hold_lock


def test_one_holder_at_a_time_and_the_block_runs_anyway(tmp_path):
    path = tmp_path / "lock"
    with hold_lock(path, 1.0) as first:
        assert first is not None
        with hold_lock(path, 0.05) as second:
            assert second is None
    with hold_lock(path, 0.0) as again:
        assert again is not None


@pytest.mark.process
def test_released_when_the_holder_is_killed_but_not_before_its_child(tmp_path):
    path = tmp_path / "lock"
    code = (
        "import sys, subprocess, time\nfrom pathlib import Path\nfrom labbook.store.locks import hold_lock\n"
        "with hold_lock(Path(sys.argv[1]), 1) as fd:\n"
        "    child = subprocess.Popen(['cat'], pass_fds=[fd])\n"
        "    print('held', flush=True)\n    time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    process.kill()
    process.wait()
    process.stdout.close()
    with hold_lock(path, 0.1) as early:
        assert early is None
    process.stdin.close()  # the end of the child
    with hold_lock(path, 30.0) as late:
        assert late is not None


def test_no_lock_where_the_file_cannot_be_made(tmp_path):
    with hold_lock(tmp_path / "missing" / "lock", 0.1) as lock:
        assert lock is None


def test_descriptors_are_closed(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    with hold_lock(tmp_path / "lock", 0.1), hold_lock(tmp_path / "lock", 0.0):
        pass
    assert len(os.listdir("/proc/self/fd")) == before


def test_processes_that_change_the_state_of_sharing_at_once_keep_the_keys_of_each_other(notes, monkeypatch):
    """A sync in the background ends while a command of the user writes what it has looked at."""
    both = threading.Barrier(2, timeout=0.3)

    def read_slowly(path):
        state = read_json_object(path)
        with suppress(threading.BrokenBarrierError):  # with the lock, they are never here at once
            both.wait()
        return state

    monkeypatch.setattr(sync_state, "read_json_object", read_slowly)
    writers = [threading.Thread(target=sync_state.update_state, args=(notes.notebook,), kwargs={k: 1}) for k in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert read_json_object(sync_state.state_path(notes.notebook)) == {"a": 1, "b": 1}
