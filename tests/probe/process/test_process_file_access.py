"""Files that a program reads and writes are reported once, with size; the interpreter's own are not."""

import os
import sys

import pytest

from labbook.probe.process import user_files
from labbook.probe.process.file_access import FileAccess
from labbook.probe.process.user_files import is_user_file


def items(done):
    """The last word on each file."""
    return {item["path"]: item for event in done.of("files") for item in event["items"]}


def by_name(done):
    return {os.path.basename(path): item for path, item in items(done).items()}


def test_reading_and_writing_are_distinguished(probed, python):
    probed.write("data.csv", "a,b\n1,2\n")
    probed.write(
        "train.py",
        "import os, pathlib, sqlite3, json\n"
        "import helper\n"
        "open('data.csv').read(); pathlib.Path('data.csv').read_text()\n"
        "open('model.bin', 'wb').write(b'0' * 100)\n"
        "open('both.txt', 'w').write('x'); open('both.txt').read()\n"
        "open('log.txt', 'a').write('line')\n"
        "fd = os.open('low.bin', os.O_WRONLY | os.O_CREAT); os.write(fd, b'123'); os.close(fd)\n"
        "sqlite3.connect('book.db').execute('create table t (x)')\n"
        "sqlite3.connect(':memory:')\n"
        "try:\n"
        "    open('missing.txt')\n"
        "except OSError: pass\n"
        "open('/dev/null').close(); open('/proc/self/stat').close(); open('/etc/hostname').close()\n",
    )
    probed.write("helper.py", "x = 1")
    done = probed(python, "train.py")
    seen = {name: (item["mode"], item["size"]) for name, item in by_name(done).items()}
    assert seen == {
        "data.csv": ("r", 8),
        "model.bin": ("w", 100),
        "both.txt": ("rw", 1),
        "log.txt": ("w", 4),
        "low.bin": ("w", 3),
        "book.db": ("rw", (probed.folder / "book.db").stat().st_size),
    }
    assert by_name(done)["data.csv"]["mtime_ns"] == (probed.folder / "data.csv").stat().st_mtime_ns


def test_what_a_call_of_labbook_reads_is_no_file_of_the_program(probed):
    probed.write("labbook.toml", 'title = "Digits"')
    probed.write("notes/a.md", "# A note")
    probed.write("data.csv", "1")
    code = "import labbook; labbook.search('note', notebook='.'); open('data.csv').read(); open('notes/a.md').read()"
    done = probed(sys.executable, "-c", code)
    assert set(by_name(done)) == {"data.csv", "a.md"}


def test_a_renamed_file_is_recorded_with_its_final_name(probed, python):
    code = (
        "import os, tempfile\n"
        "with tempfile.TemporaryFile(dir='.') as f: f.write(b'x')\n"
        "with tempfile.NamedTemporaryFile(dir='.') as f: f.write(b'x'); f.flush(); open(f.name).read()\n"
        "with tempfile.NamedTemporaryFile(dir='.', delete=False) as f: f.write(b'xy')\n"
        "os.replace(f.name, 'model.bin')\n"
        "with open('part.tmp', 'w') as f: f.write('abc')\n"
        "os.rename('part.tmp', 'final.txt')\n"
        "with tempfile.NamedTemporaryFile(dir='.', delete=False, suffix='.kept') as f: f.write(b'xyz')\n"
    )
    done = probed(python, "-c", code)
    seen = {name.rpartition(".")[2]: (i["mode"], i["size"]) for name, i in by_name(done).items()}
    assert seen == {"bin": ("w", 2), "txt": ("w", 3), "kept": ("w", 3), "tmp": ("w", -1)}


def test_files_that_c_code_holds_open_are_seen_at_steps_and_at_the_end(probed, python):
    probed.write("mapped.bin", "x" * 5000)
    probed.write("held.bin", "y")
    code = (
        "import _ctypes, ctypes, sys\n"
        "libc = ctypes.CDLL(None)\n"
        "libc.mmap.restype = ctypes.c_void_p\n"
        "whole = ctypes.c_int\n"
        "libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, whole, whole, whole, ctypes.c_long]\n"
        "fd = libc.open(b'mapped.bin', 0)\n"
        "libc.mmap(None, 5000, 1, 1, fd, 0); libc.close(fd)\n"
        "fd = libc.open(b'held.bin', 0)\n"
        "libc.open(b'gone.bin', 0o101, 0o600); libc.unlink(b'gone.bin')\n"
        "sys._labbook_probe.step = 1\n"
        "libc.close(fd)\n"
        "libc.open(b'late.bin', 0o101, 0o600)\n"
    )
    done = probed(python, "-c", code)
    seen = {name: item["mode"] for name, item in by_name(done).items()}
    assert seen == {"mapped.bin": "r", "held.bin": "r", "late.bin": "w"}


def test_the_file_of_the_output_is_no_file_of_the_program_under_another_number(probed, python):
    code = "import os, sys; os.dup(1); os.dup2(os.open(os.devnull, 1), 1); sys._labbook_probe.step = 1"
    done = probed("sh", "-c", 'exec "$0" -c "$1" > log.txt', python, code)
    assert "log.txt" not in by_name(done)


def test_many_files_of_a_folder_are_counted_not_listed(probed):
    code = (
        "import os\n"
        "os.mkdir('images')\n"
        "for n in range(3000): open('images/%d.jpg' % n, 'w').close()\n"
        "for epoch in range(2):\n"
        "    for n in range(3000): open('images/%d.jpg' % n).close()\n"
    )
    done = probed(sys.executable, "-c", code)
    listed = items(done)
    (folder,) = [item for item in listed.values() if item.get("folder")]
    assert os.path.basename(folder["path"]) == "images"
    assert folder["members"] == 2800
    assert folder["mode"] == "rw"
    assert len(listed) == 201
    assert sum(len(str(event)) for event in done.events) < 150_000


def test_a_fork_records_its_own_files_only(probed, python):
    probed.write(
        "train.py",
        "import multiprocessing as mp\n"
        "def work(n):\n"
        "    open('part%d.txt' % n).read()\n"
        "open('parent.txt', 'w').close()\n"
        "children = [mp.get_context('fork').Process(target=work, args=(n,)) for n in range(3)]\n"
        "[c.start() for c in children]; [c.join() for c in children]\n",
    )
    for n in range(3):
        probed.write(f"part{n}.txt", "x")
    done = probed(python, "train.py")
    forks = [events for events in done.files.values() if events[0]["role"] == "fork"]
    found = [{os.path.basename(i["path"]) for e in fork if e["k"] == "files" for i in e["items"]} for fork in forks]
    assert sorted(map(sorted, found)) == [["part0.txt"], ["part1.txt"], ["part2.txt"]]


def test_links_are_resolved_and_a_secret_in_a_path_is_masked(probed):
    probed.write("real.txt", "x")
    (probed.folder / "link.txt").symlink_to(probed.folder / "real.txt")
    code = "open('link.txt').read(); open('run-zq81xYt55wpL.txt', 'w').close()"
    done = probed(sys.executable, "-c", code, MY_API_KEY="zq81xYt55wpL")
    assert done.paths() == {"real.txt", "run-[REDACTED:known].txt"}


@pytest.mark.parametrize("module", ["h5py", "pyarrow.parquet", "safetensors.numpy", "torch", "torch.export"])
def test_readers_in_c_are_seen(probed, module):
    pytest.importorskip(module)
    pytest.importorskip("numpy")
    code = {
        "h5py": "import h5py; h5py.File('a.h5', 'w').close(); h5py.File('a.h5').close()",
        "pyarrow.parquet": (
            "import pyarrow as pa, pyarrow.parquet as pq; pq.write_table(pa.table({'a': [1]}), 'a.parquet'); "
            "pq.ParquetFile('a.parquet').read()"
        ),
        "safetensors.numpy": (
            "import numpy, safetensors.numpy as s; s.save_file({'a': numpy.zeros(3)}, 'a.safetensors'); "
            "s.load_file('a.safetensors')"
        ),
        "torch": (
            "import torch; m = torch.jit.trace(torch.nn.Linear(2, 2), torch.ones(1, 2)); torch.jit.save(m, 'a.ts'); "
            "torch.jit.load('a.ts')"
        ),
        "torch.export": (
            "import torch; m = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),)); "
            "torch.export.save(m, 'a.pt2'); torch.export.load('a.pt2')"
        ),
    }[module]
    done = probed(sys.executable, "-c", code)
    (item,) = by_name(done).values()
    assert (item["mode"], item["size"] > 0) == ("rw", True)


def test_a_checkpoint_is_a_file_and_one_that_is_read_and_then_written_keeps_both_contents(probed, python):
    import hashlib

    probed.write("last.pth", "old")
    probed.write("study.db", "old")
    body = """
open('study.db', 'r+').write('y'); open('last.pth').read(); open('last.pth', 'w').write('newer')
open('new.pth', 'w').write('x'); import helper
"""
    probed.write("train.py", body)
    probed.write("helper.py", "x = 1")
    done = probed(python, "train.py", PYTHONPYCACHEPREFIX=str(probed.folder / "cache"))

    seen = by_name(done)
    assert sorted(seen) == ["last.pth", "new.pth", "study.db"]
    assert (seen["last.pth"]["mode"], seen["last.pth"]["size"]) == ("rw", 5)
    for name in ("last.pth", "study.db"):
        assert seen[name]["before"] == "sha256:" + hashlib.sha256(b"old").hexdigest()
    assert "before" not in seen["new.pth"]


@pytest.mark.parametrize("size", [3 << 20, 20 << 20])
def test_the_probe_makes_the_fingerprints_of_the_recorder(tmp_path, size):
    from labbook.capture.fingerprints import Budget, fingerprint_file
    from labbook.probe.process.file_access import FileAccess

    class Files(FileAccess):
        def __init__(self):
            self._configs = self

    file = tmp_path / "x.bin"
    file.write_bytes(os.urandom(1 << 20) * (size >> 20))
    assert Files()._fingerprint(str(file)) == fingerprint_file(file, Budget(hash_full_bytes=16 << 20)).text


def test_logs_of_ray_and_lines_of_compiled_packages_are_not_the_users(tmp_path):
    access = FileAccess.__new__(FileAccess)
    access._ignored = ()
    session = "/tmp/ray/session_2026-11-26_04-08-16_353500_28663"
    assert access._is_ignored(f"{session}/logs/raylet.out")
    assert not access._is_ignored(f"{session}/runtime_resources/working_dir_files/_ray_pkg_1/best.pt")
    own = tmp_path / "fast.pyx"
    own.write_text("")
    assert is_user_file(str(own)) and not is_user_file(str(tmp_path / "python/ray/_raylet.pyx"))


def test_only_the_code_of_a_command_line_is_the_users_without_a_file(monkeypatch):
    """A library makes the constructor of a dataclass from a text, too."""
    monkeypatch.setattr(sys, "argv", ["train.py"])
    assert not is_user_file("<string>")
    monkeypatch.setattr(sys, "argv", ["-c"])
    assert is_user_file("<string>")


def test_packages_installed_to_a_folder_of_the_module_path_are_not_the_users(monkeypatch, tmp_path):
    for name in ("libs/tool-1.0.dist-info", "own/old-1.0.dist-info", "helpers"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to("libs")
    monkeypatch.setattr(
        sys, "path", [*sys.path, *(str(tmp_path / name) for name in ("libs", "link", "own", "helpers"))]
    )
    monkeypatch.chdir(tmp_path / "own")
    user_files._library_folders.cache_clear()
    found = {name: is_user_file(f"{tmp_path}/{name}/tool.py") for name in ("libs", "link", "own", "helpers")}
    user_files._library_folders.cache_clear()
    assert found == {"libs": False, "link": False, "own": True, "helpers": True}


def test_a_python_file_among_the_arguments_is_a_configuration(probed, python):
    for name in ("executed.py", "imported.py", "given.py", "helper.py"):
        probed.write(name, "rate = 0.1")
    probed.write(
        "train.py",
        "import sys, importlib.util, helper\n"
        "exec(open(sys.argv[1]).read())\n"
        "spec = importlib.util.spec_from_file_location('config', sys.argv[2])\n"
        "spec.loader.exec_module(importlib.util.module_from_spec(spec))\n"
        "open(sys.argv[3].partition('=')[2]).read(); open('helper.py').read()\n",
    )
    done = probed(python, "train.py", "executed.py", "./imported.py", "--config=given.py")
    assert {name: item["mode"] for name, item in by_name(done).items()} == {
        "executed.py": "r", "imported.py": "r", "given.py": "r",
    }  # fmt: skip
