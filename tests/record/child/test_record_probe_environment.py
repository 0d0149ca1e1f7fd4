"""The environment of a recorded command: the probe in front, everything else as the user has it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from labbook.probe.events.protocol import ENV_PROBE
from labbook.record.child.probe_environment import inject_environment, keep_probe


def test_the_settings_and_the_folder_are_added_and_nothing_else_changes():
    before = {"PATH": "/bin", "LANG": "C"}
    after = inject_environment(before, {"dir": "/tmp/日志", "level": "light"})
    assert before == {"PATH": "/bin", "LANG": "C"}
    assert set(after) == {"PATH", "LANG", "PYTHONPATH", ENV_PROBE}
    settings = json.loads(after[ENV_PROBE])
    assert (settings["dir"], settings["level"]) == ("/tmp/日志", "light")
    assert after[ENV_PROBE].isascii()
    assert [path.name for path in Path(after["PYTHONPATH"]).glob("*.py")] == ["sitecustomize.py"]
    assert (Path(settings["root"]) / "probe" / "start.py").is_file()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, "F"),
        ("", "F"),
        ("a", "F:a"),
        ("a:b", "F:a:b"),
        ("a:", "F:a:"),
        (":a", "F::a"),
        ("F:a", "F:a"),
        ("F", "F"),
    ],
)
def test_pythonpath_of_the_user_is_preserved(before, after):
    folder = Path("/somewhere/inject")
    environ = {} if before is None else {"PYTHONPATH": before.replace("F", str(folder))}
    assert inject_environment(environ, {}, folder)["PYTHONPATH"] == after.replace("F", str(folder))


@pytest.mark.parametrize("before", [None, "", ":", "x::y"])
def test_the_program_has_the_search_path_that_it_has_without(tmp_path, before):
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if before is not None:
        environ["PYTHONPATH"] = before
    (tmp_path / "events").mkdir()
    shown = [
        subprocess.run(
            [sys.executable, "-c", "import sys; print(sys.path)"],
            env=env,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=90,
            check=True,
        ).stdout
        for env in (environ, inject_environment(environ, {"dir": str(tmp_path)}))
    ]
    assert shown[0] == shown[1]
    assert len(list((tmp_path / "events").iterdir())) == 1


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        ("env PYTHONPATH=src python train.py", "env PYTHONPATH=F:src python train.py"),
        ("/usr/bin/env A=1 PYTHONPATH= python x.py", "/usr/bin/env A=1 PYTHONPATH=F python x.py"),
        ("env -u B PYTHONPATH=F:src python x.py", "env -u B PYTHONPATH=F:src python x.py"),
        ("env python x.py PYTHONPATH=src", "env python x.py PYTHONPATH=src"),
        ("python x.py PYTHONPATH=src", "python x.py PYTHONPATH=src"),
        ("", ""),
    ],
)
def test_a_path_that_the_command_sets_itself_keeps_the_probe(command, kept):
    assert keep_probe(command.split(), {"PYTHONPATH": "F:old"}) == kept.split()
