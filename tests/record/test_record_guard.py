"""Whatever happens in labbook, the command runs once, with its own streams, and its exit status is its own."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from order_of_tests import further

from tests.conftest import forked_labbook

RAISING = Path(__file__).resolve().parents[1] / "programs" / "record_raising.py"
KINDS = ("OSError", "UnicodeError", "RuntimeError", "MemoryError")
COMMAND = ("sh", "-c", "echo run >> ran; echo out; echo err >&2; exit 7")
SAMPLE = 4
"""Calls that `make test` tries; `make test-all` tries each."""


def raising(folder, *words):
    command = [str(RAISING), str(folder), *words, "record", "--", *COMMAND]
    return forked_labbook("labbook").run(command, dict(os.environ), folder, 60)


def harm(folder, call, kind):
    """What is wrong with the run in which `call` raised; empty when nothing is."""
    done = raising(folder, call, kind)
    ran = (folder / "ran").read_text() if (folder / "ran").exists() else ""
    ok = done.returncode == 7 and ran == "run\n" and done.stdout == "out\n"
    ok = ok and "err\n" in done.stderr and "Traceback" not in done.stderr
    return "" if ok else f"{call} raises {kind}: {done.returncode} {ran!r} {done.stdout!r}\n{done.stderr}"


@pytest.fixture
def template(book):
    """A notebook with one run, and the calls that the recorder makes in a second one."""
    book("record", "--", *COMMAND, check=False)
    (book.folder / "ran").unlink()
    folder = book.folder.with_name("listed")
    shutil.copytree(book.folder, folder)
    done = raising(folder, "list")
    assert done.returncode == 7, done.stderr
    calls = sorted(set((folder / "calls").read_text().splitlines()))
    assert len(calls) > 300
    return book.folder, calls


def try_all(template, cases):
    folder, _ = template
    harms = []
    for call, kind in cases:
        copy = folder.with_name("copy")
        shutil.copytree(folder, copy)
        harms.append(harm(copy, call, kind))
        shutil.rmtree(copy)
    assert not any(harms), "\n".join(filter(None, harms))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_call_of_the_recorder_that_raises_does_not_harm_the_command(template):
    """Some of the calls, evenly chosen; the next test tries all."""
    calls = template[1]
    chosen = calls[:: max(1, len(calls) // SAMPLE)]
    try_all(template, [(call, KINDS[number % len(KINDS)]) for number, call in enumerate(chosen)])


def test_output_that_cannot_be_read_or_written_once_is_not_lost(template):
    calls = [call for call in template[1] if call.startswith("child/pump.py") and call.endswith((":read", ":write"))]
    assert len(calls) >= 2
    try_all(template, [(call, kind) for call in calls for kind in KINDS])


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_call_of_the_recorder_that_raises_harms_the_command(template):
    try_all(template, [(call, KINDS[number % len(KINDS)]) for number, call in enumerate(template[1])])


def some(chosen, values):
    """All values as parameters; those that are not chosen are left to `make test-all`."""
    return [pytest.param(value, marks=() if value in chosen else pytest.mark.long) for value in values]


UNDECODABLE = os.fsdecode(b"caf\xe9")
SHORT = ("sh", "-c", "echo out; exit 7")


def shown(book):
    """Entry and facts of the run as they are on the disk, which must be UTF-8."""
    (entry,) = (book.folder / "notes" / "runs").rglob("*.md")
    return entry.read_bytes().decode("utf-8") + (entry.with_suffix("") / "run.json").read_bytes().decode("utf-8")


@pytest.mark.parametrize("place", ["argument", "file", *further("note", "tag", "own process")])
def test_bytes_that_are_no_utf8_are_recorded_visibly(book, git, place):
    program = f"import sys\nopen({UNDECODABLE!r} + '.txt', 'w').write('x')\nopen({UNDECODABLE!r} + '.txt').read()\n"
    (book.folder / "write.py").write_text(program + "print('out'); sys.exit(7)\n")
    words = {
        "argument": ("--", *SHORT, UNDECODABLE),
        "note": ("-m", UNDECODABLE, "--", *SHORT),
        "tag": ("-t", UNDECODABLE, "--", *SHORT),
        "own process": ("--", sys.executable, "write.py", UNDECODABLE),
        "file": ("--", sys.executable, "write.py"),
    }[place]

    done = book("record", *words, check=False)

    assert done.returncode == 7 and done.stdout == "out\n" and "committed as" in done.stderr, done.stderr
    assert "xe9" in shown(book)
    assert git(book.folder, "status", "--porcelain", "notes") == ""


def test_a_working_folder_that_is_no_utf8(book):
    folder = book.folder / UNDECODABLE
    folder.mkdir()

    done = book.record(*SHORT, cwd=folder, check=False)

    assert done.returncode == 7 and done.stdout == "out\n" and "committed as" in done.stderr, done.stderr
    assert "xe9" in shown(book)


def test_a_locale_of_ascii(book):
    environ = {**os.environ, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "POSIX"}

    done = book.record("echo", "é", env=environ)

    assert done.stdout == "é\n" and "committed as" in done.stderr
    assert '"argv": ["echo", "é"]' in shown(book)


def test_a_script_that_begins_with_a_tilde(book):
    (book.folder / "~x.py").write_text("print('out'); raise SystemExit(7)")

    done = book.record(sys.executable, "~x.py", check=False)

    assert done.returncode == 7 and done.stdout == "out\n"
    assert book.run()["script"] == "~x.py"


def test_a_working_folder_that_is_deleted(book):
    command = [sys.executable, "-m", "labbook", "record", "--", *SHORT]
    gone = book.folder / "gone"
    gone.mkdir()
    inside = f"import os, subprocess, sys; os.rmdir({str(gone)!r}); sys.exit(subprocess.call({command!r}))"

    done = subprocess.run([sys.executable, "-c", inside], cwd=gone, capture_output=True, text=True, timeout=60)

    assert done.returncode == 7 and done.stdout == "out\n"
    assert "this run is not recorded: No such file or directory" in done.stderr and "Traceback" not in done.stderr


def test_a_working_folder_that_the_command_deletes(book):
    gone = book.folder / "gone"
    gone.mkdir()
    leave = f"import os, sys; os.rmdir({str(gone)!r}); print('out'); sys.exit(7)"

    done = book.record(sys.executable, "-c", leave, cwd=gone, check=False)

    assert (done.returncode, done.stdout) == (7, "out\n") and "cannot write" not in done.stderr
    assert (book.run()["status"], book.run()["cwd"]) == ("failed", str(gone))


@pytest.mark.parametrize("descriptors", some((7, 10, 12, 16), [7, 9, 10, 11, 12, 13, 14, 16, 20, 24]))
def test_few_descriptors(book, descriptors):
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

    done = book.record(*SHORT, preexec_fn=limit, check=False)

    assert done.returncode == 7 and done.stdout == "out\n" and "Traceback" not in done.stderr
    unrecorded = "this run is not recorded" in done.stderr
    assert unrecorded == (not list((book.folder / ".labbook" / "runs").glob("*"))), done.stderr


def test_no_file_may_grow(book):
    done = book.record(*SHORT, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)), check=False)

    assert done.returncode == 7 and done.stdout == "out\n"
    assert "this run is not recorded" in done.stderr and "Traceback" not in done.stderr
    assert "File too large" in done.stderr and "unhashable" not in done.stderr


@pytest.mark.parametrize("script", ["echo out; exit 7", "echo err >&2; echo out; exit 7"])
def test_standard_error_is_full(book, script):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "labbook", "record", "--", "sh", "-c", script],
            cwd=book.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=full, text=True, timeout=60,
        )  # fmt: skip

    assert done.returncode == 7 and done.stdout == "out\n"
    assert book.run()["exit_code"] == 7


@pytest.mark.parametrize("rules", some(("fifo",), ["fifo", "/dev/zero", "folder", "large"]))
def test_redaction_rules_that_are_no_file(book, rules):
    path = book.folder / "rules.toml"
    if rules == "fifo":
        os.mkfifo(path)
    elif rules == "folder":
        path.mkdir()
    elif rules == "large":
        path.write_bytes(b"# " + b"x" * 2_000_000)
    else:
        path.symlink_to(rules)
    settings = book.folder / "labbook.toml"
    settings.write_text(settings.read_text().replace('redact_rules = ""', 'redact_rules = "rules.toml"'))

    done = book.record(*SHORT, check=False)

    assert done.returncode == 7 and done.stdout == "out\n"
    assert "personal notebook" in done.stderr and "rules.toml" in done.stderr
    assert "labbook init" not in done.stderr, "there is a notebook: it has to be mended"


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 1 MiB, and a function that leaves so many bytes free on it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small file system needs to be root")

    def leave(free_bytes):
        spare = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize - free_bytes
        with (folder / "filling").open("ab") as stream:
            stream.write(bytes(spare))

    yield folder, leave
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("free_kib", some((0, 24, 36), [0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 64, 96]))
def test_little_free_disk(book, small_disk, free_kib):
    folder, leave = small_disk
    shutil.copytree(book.folder, folder / "book")
    leave(free_kib * 1024)

    done = book.record(*SHORT, cwd=folder / "book", check=False)

    assert done.returncode == 7 and done.stdout == "out\n" and "Traceback" not in done.stderr, done.stderr


@pytest.mark.parametrize("free_kib", [120, *further(60, 300)])
def test_a_disk_that_fills_during_the_run(book, small_disk, free_kib):
    folder, leave = small_disk
    shutil.copytree(book.folder, folder / "book")
    leave(free_kib * 1024)
    fill = "cat /dev/zero > ../more 2> /dev/null; echo out; exit 7"

    done = book.record("sh", "-c", fill, cwd=folder / "book", check=False)

    assert done.returncode == 7 and done.stdout == "out\n" and "Traceback" not in done.stderr, done.stderr
    if "this run is not recorded" not in done.stderr and "personal" not in done.stderr:
        (folder / "more").unlink()
        (folder / "filling").unlink()
        book("recover", cwd=folder / "book")
        (entry,) = (folder / "book" / "notes" / "runs").rglob("*.md")
        assert "exit_code: 7" in entry.read_text(), "how it ended was written into the reserved space"


def test_a_program_that_cannot_be_executed_leaves_no_journal(book):
    script = book.folder / "broken"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)

    done = book.record("./broken", check=False)

    assert done.returncode == 127 and "Traceback" not in done.stderr
    assert not list((book.folder / ".labbook" / "runs").glob("*"))


def test_a_command_that_is_not_recorded_has_its_own_signals(book, tmp_path):
    """It takes the place of the recorder, so that a signal needs no passing on."""
    gone = tmp_path / "gone"
    gone.mkdir()
    command = ["sh", "-c", f"rmdir {gone}; exec {sys.executable} -m labbook record -- sh -c 'echo ready; sleep 100'"]
    process = subprocess.Popen(command, cwd=gone, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)

    assert process.wait(60) == -signal.SIGTERM
    process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_the_entry_is_written_changes_nothing(book, number):
    """The command has ended: without labbook, nothing would be left to get it."""
    patch = (
        "import os\n"
        "from labbook import cli\n"
        "from labbook.record.recording import Recording\n"
        "finish = Recording.finish\n"
        f"Recording.finish = lambda *given: (os.kill(os.getpid(), {int(number)}), finish(*given))[1]\n"
        "cli.main(['record', '--', 'sh', '-c', 'exit 3'])\n"
    )
    done = subprocess.run([sys.executable, "-c", patch], cwd=book.folder, capture_output=True, text=True, check=False)

    assert done.returncode == 3 and "exit_code: 3" in book.entry()
    assert "recovered" not in book("list").stderr


def test_a_run_that_deletes_its_journal_has_an_entry(book):
    done = book.record("sh", "-c", "rm -rf .labbook/runs/*; exit 3", check=False)

    assert done.returncode == 3 and "the command deleted the journal of its run" in done.stderr
    (entry,) = (book.folder / "notes" / "runs").rglob("*.md")
    assert "exit_code: 3" in entry.read_text() and "recover" not in done.stderr
