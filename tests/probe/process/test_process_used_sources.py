"""The user's files and environment variables that a program used."""

import os
import sys

import pytest

from labbook.probe.process.used_sources import read_variables


def test_loaded_files_of_the_user_are_told_with_the_variables_that_they_name(probed, python):
    probed.write("unused.py", "")
    probed.write(
        "train.py", "import helper, json, os\nos.environ['MY_MODE']\nos.environ['MY_OWN'] = 'set by the program'\n"
    )
    probed.write(
        "helper.py", "import os\nx = os.environ.get('MY_FACTOR')\ny = os.getenv('MY_TOKEN')\nos.getenv('MY_OWN')\n"
    )
    more = {"MY_FACTOR": "3", "MY_MODE": "fast", "MY_TOKEN": "zq81xYt55wpL", "OTHER": "1"}
    done = probed(python, "train.py", **more)

    (event,) = done.of("sources")
    assert [os.path.basename(file) for file in event["files"]] == ["train.py", "helper.py"]
    assert event["environment"] == {"MY_FACTOR": "3", "MY_MODE": "fast"}


def test_installed_modules_that_the_user_imports_are_named(probed, python):
    for name in ("first", "second", "inner", "third", "unused"):
        probed.write(f"site-packages/{name}.py", "import inner\n" if name == "first" else "")
    probed.write(
        "train.py",
        "import sys\nsys.path.append('site-packages')\nimport first\n"
        "def late():\n    from third import __name__\nimport json, second\nlate()\n# import unused\n",
    )
    (event,) = probed(python, "train.py").of("sources")
    assert event["imported"] == ["first", "second", "third"]
    assert set(event["packages"]) >= {"first", "inner", "second", "third"}


def test_imported_packages_of_a_target_folder_are_named(probed, python):
    for name in ("first", "second", "unused"):
        probed.write(f"../target/{name}.py", "import second\n" if name == "first" else "")
    probed.write("../target/first-1.0.dist-info/METADATA", "Name: first\nVersion: 1.0\n")
    probed.write("train.py", "import os, sys\nimport first\n# import unused\n")
    folder = os.path.join(str(probed.folder), "..", "target")
    (event,) = probed(python, "train.py", PYTHONPATH=folder).of("sources")
    assert event["imported"] == ["first"]
    assert {"first", "second"} <= set(event["packages"]) and "unused" not in event["packages"]


def test_variables_with_the_name_of_a_loaded_package_are_those_that_it_reads(monkeypatch):
    module = type(sys)("parl")
    module.__file__ = "/x/site-packages/parl/__init__.py"
    monkeypatch.setitem(sys.modules, "parl", module)
    environ = {"PARL_BACKEND": "paddle", "PARL_KEY": "x", "TF_CLI_CONFIG_FILE": "y", "HOME": "/home/x"}

    assert read_variables([], environ) == {"PARL_BACKEND": "paddle"}


@pytest.mark.parametrize("program", ["import missing_module\n", "raise SystemExit(3)\n"])
def test_a_program_that_fails_at_once_has_its_main_file(probed, python, program):
    probed.write("train.py", program)
    (event,) = probed(python, "train.py", check=False).of("sources")
    assert [os.path.basename(file) for file in event["files"]] == ["train.py"]


def test_the_cells_of_a_kernel_are_its_source(probed, python):
    probed.write("site-packages/first.py", "")
    code = (
        "import sys\nsys.path.append('site-packages')\n__import__('first')\n"
        "In = ['', 'import first, json', 'os.environ[\"MY_MODE\"]']"
    )
    (event,) = probed(python, "-c", code, MY_MODE="fast").of("sources")
    assert (event["files"], event["imported"], event["environment"]) == ([], ["first"], {"MY_MODE": "fast"})
