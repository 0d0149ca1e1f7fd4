"""Environments: real virtual ones; a conda environment is a folder written as conda writes it (marked as such)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from order_of_tests import in_one_test

from labbook.capture import lockfiles, python_env
from labbook.capture.conda_env import read_conda_environment
from labbook.capture.python_env import find_packages, format_environment_text, normalize_name
from labbook.capture.sources import capture_after
from labbook.errors import Unavailable

ASK = (
    "import json,sys; print(json.dumps({'executable': sys.executable, 'prefix': sys.prefix,"
    "'base_prefix': sys.base_prefix,"
    "'version': '%d.%d.%d' % sys.version_info[:3], 'sys_path': sys.path, 'implementation': sys.implementation.name}))"
)


def hello_of(python: Path | str) -> dict:
    return json.loads(subprocess.run([str(python), "-c", ASK], capture_output=True, text=True, check=True).stdout)


def wheel(folder: Path, name: str, version: str) -> Path:
    """A wheel with one module, as pip installs it."""
    file = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{name}.py", "x = 1\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return file


def dist_info(site: Path, name: str, version: str, origin: dict | None = None, installer: str = "pip") -> None:
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    (folder / "INSTALLER").write_text(installer + "\n")
    if origin is not None:
        (folder / "direct_url.json").write_text(json.dumps(origin))


@pytest.fixture
def venv(tmp_path) -> Path:
    folder = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder


def site_of(venv: Path) -> Path:
    return next(venv.glob("lib/python3.*/site-packages"))


def test_names_and_versions_are_those_of_the_interpreter():
    packages, origins = find_packages([Path(p) for p in sys.path])
    expected: dict[str, str] = {}
    for found in metadata.distributions():  # the first of a name is what an import finds
        expected.setdefault(normalize_name(found.metadata["Name"]), found.version)
    assert packages == dict(sorted(expected.items()))
    assert origins["labbook"]["editable"] is True


def test_packages_are_those_that_the_program_uses(tmp_path):
    for name, record in (
        ("Image_Tools-2.0", "imgtools/__init__.py,sha256=x,1\nimgtools/io.py,,\n"),
        ("numbers_py-1.0", "../bin/x,,\nfastnum.cpython-311.so,,\n"),
        ("plain-3.0", "plain/__init__.py,,\n"),
        ("other-1.0", "other/imgtools.py,,\n"),
    ):
        (tmp_path / f"{name}.dist-info").mkdir()
        (tmp_path / f"{name}.dist-info" / "RECORD").write_text(record)
    facts = {"packages": find_packages([tmp_path])[0]}
    modules = (("imgtools", "plain"), ("fastnum", "imgtools", "plain", "unknown"))
    used = python_env.add_used_packages(facts, modules, {"sys_path": [str(tmp_path)]})
    assert used["imported"] == ["image-tools", "plain"]
    assert used["loaded"] == ["image-tools", "numbers-py", "plain"]
    assert used["modules"] == {"imgtools": "image-tools"}


@pytest.mark.process
def test_a_virtual_environment_is_listed_and_can_be_installed_again(venv, tmp_path, make_context):
    wheels = [wheel(tmp_path, "tiny_one", "1.2.0"), wheel(tmp_path, "Tiny.Two", "2.0")]
    pip = [sys.executable, "-m", "pip", "--python", str(venv / "bin" / "python"), "--disable-pip-version-check"]
    wanted = ["--find-links", str(tmp_path), "tiny_one", str(wheels[1])]
    subprocess.run([*pip, "install", "--no-index", "--no-deps", "-q", *wanted], check=True)
    context = make_context(tmp_path, "python", "train.py", python=hello_of(venv / "bin" / "python"))
    facts = python_env.capture(context)
    assert facts["kind"] == "venv"
    assert facts["packages"] == {"tiny-one": "1.2.0", "tiny-two": "2.0"}
    assert facts["origins"]["tiny-two"]["url"].endswith("Tiny.Two-2.0-py3-none-any.whl")
    assert facts["guessed"] is False
    text = (context.attachments / "environment.txt").read_text()
    assert "tiny-one==1.2.0\n" in text
    assert text.startswith(f"# Python {facts['version']} (cpython), venv, 2 packages\n")
    listed = subprocess.run(
        [*pip, "install", "--no-index", "--dry-run", "-r", str(context.attachments / "environment.txt")],
        capture_output=True,
        text=True,
    )
    assert listed.returncode == 0, listed.stderr


def test_origins_carry_commits_and_no_credentials(venv, tmp_path, git_in, code):
    site = site_of(venv)
    secret = "ghp_abcdefghijklmnop"
    dist_info(
        site,
        "from_git",
        "0.1",
        {
            "url": f"https://wei:{secret}@git.example.com/team/lib.git",
            "vcs_info": {"vcs": "git", "commit_id": "9f2c1d7aa0b3c4d5e6f708192a3b4c5d6e7f8091"},
        },
    )
    dist_info(site, "mine", "0.3", {"url": code.as_uri(), "dir_info": {"editable": True}})
    dist_info(site, "from_web", "1.0", {"url": f"https://{secret}@example.com/a.whl?sig={secret}", "archive_info": {}})
    dist_info(site, "broken", "1.0")
    (site / "broken-1.0.dist-info" / "direct_url.json").write_text("{not json")
    packages, origins = find_packages([site, tmp_path / "missing", site])
    assert set(packages) == {"from-git", "mine", "from-web", "broken"}
    assert origins["mine"] == {"url": str(code), "commit": git_in(code, "rev-parse", "HEAD"), "editable": True}
    text = format_environment_text(
        {
            "version": "3.11.7",
            "implementation": "cpython",
            "kind": "venv",
            "count": 4,
            "packages": packages,
            "origins": origins,
        }
    )
    assert secret not in text
    assert "from-git @ git+https://git.example.com/team/lib.git@9f2c1d7aa0b3c4d5e6f708192a3b4c5d6e7f8091" in text
    assert "from-web @ https://example.com/a.whl\n" in text
    assert f"# editable from {code}, commit {origins['mine']['commit']}\nmine==0.3\n" in text
    assert "broken==1.0\n" in text


def test_old_kinds_of_metadata(tmp_path):
    site = tmp_path / "lib" / "site-packages"
    site.mkdir(parents=True)
    (site / "old_style-1.4-py3.8.egg-info").write_text("Version: 1.4\n")
    source = tmp_path / "src"
    (source / "Dev.Tool.egg-info").mkdir(parents=True)
    (source / "Dev.Tool.egg-info" / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: Dev.Tool\nVersion: 0.9.dev1\n")
    packages, origins = find_packages([site, source])
    assert packages == {"dev-tool": "0.9.dev1", "old-style": "1.4"}
    assert origins == {"dev-tool": {"url": str(source), "commit": "", "editable": True}}


def test_the_first_folder_of_the_path_wins(tmp_path):
    dist_info(tmp_path / "a", "numpy", "2.0")
    dist_info(tmp_path / "b", "numpy", "1.26")
    assert find_packages([tmp_path / "a", tmp_path / "b"])[0] == {"numpy": "2.0"}


@pytest.mark.parametrize(
    ("settings", "place", "kind"),
    [
        ("home = /usr/bin\nuv = 0.5.1\n", "project/.venv", "uv"),
        ("home = /usr/bin\nvirtualenv = 20.1\n", "env", "virtualenv"),
        ("home = /usr/bin\nvirtualenv = 20.1\n", ".cache/pypoetry/virtualenvs/x", "poetry"),
        ("home = /usr/bin\nversion = 3.11\n", "env", "venv"),
        ("", ".pyenv/versions/3.11.7", "pyenv"),
        ("", "usr", "system"),
    ],
)
def test_kinds_of_environment(tmp_path, settings, place, kind):
    prefix = tmp_path / place
    prefix.mkdir(parents=True)
    if settings:
        (prefix / "pyvenv.cfg").write_text(settings)
    assert python_env.environment_kind(prefix, prefix) == kind


@pytest.mark.process
def test_without_hello_the_interpreter_is_found_by_its_name(venv, tmp_path, make_context):
    dist_info(site_of(venv), "tiny", "1.0")
    environ = {**os.environ, "PATH": f"{venv / 'bin'}:{os.environ['PATH']}"}
    context = make_context(tmp_path, "torchrun", "--nproc-per-node", "2", "train.py", environ=environ)
    facts = python_env.capture(context)
    assert facts["guessed"] is True
    assert facts["packages"] == {"tiny": "1.0"}
    assert facts["version"].startswith("3.")
    context = make_context(tmp_path, str(venv / "bin" / "python"), "-I", "train.py")
    assert python_env.capture(context)["packages"] == {"tiny": "1.0"}


def test_packages_of_a_container_are_not_those_of_this_machine(tmp_path, make_context):
    inside = {"prefix": sys.prefix, "sys_path": sys.path, "version": "3.11.2"}
    context = replace(make_context(tmp_path, "python", "train.py", python=inside), in_container=True)
    with pytest.raises(Unavailable, match="in the container"):
        python_env.capture(context)
    assert not list(context.attachments.glob("environment*"))


def test_a_command_without_python_declines(tmp_path, make_context):
    with pytest.raises(Unavailable, match="the probe started in no Python"):
        python_env.capture(make_context(tmp_path, "make", "train"))


@pytest.fixture
def conda(tmp_path) -> Path:
    """Not made by conda: a folder with the records that conda leaves, as its documentation and files show them."""
    prefix = tmp_path / "miniconda3" / "envs" / "digits"
    meta = prefix / "conda-meta"
    meta.mkdir(parents=True)
    for name, channel in (
        ("python-3.11.9-h955ad1f_0", "defaults"),
        ("numpy-1.26.4-py311h64a7726_0", "conda-forge"),
        ("_libgcc_mutex-0.1-conda_forge", "conda-forge"),
        ("ca-certificates-2024.7.4-hbcca054_0", "https://conda.example.com/t/tk-abcdef123456/private"),
        ("yaml-0.2.5-7", "conda-forge"),
    ):
        (meta / f"{name}.json").write_text(json.dumps({"channel": channel, "files": ["a"] * 100}))
    (meta / "history").write_text(
        "==> 2024-07-04 <==\n+conda-forge/linux-64::numpy-1.26.4-py311h64a7726_0\n"
        "+https://conda.anaconda.org/conda-forge/noarch::y-1-0\n"
        "+defaults/linux-64::python-3.11.9-h955ad1f_0\n"
        "+https://conda.example.com/t/tk-abcdef123456/private/linux-64::ca-certificates-2024.7.4-hbcca054_0\n"
    )
    site = prefix / "lib" / "python3.11" / "site-packages"
    dist_info(site, "numpy", "1.26.4", installer="conda")
    dist_info(site, "torch", "2.3.1+cu121")
    dist_info(
        site,
        "lib",
        "0.1",
        {"url": "https://git.example.com/lib.git", "vcs_info": {"vcs": "git", "commit_id": "a" * 40}},
    )
    return prefix


def test_conda_environment_gets_a_file_that_conda_reads(conda, tmp_path, make_context):
    site = conda / "lib" / "python3.11" / "site-packages"
    hello = {"version": "3.11.9", "prefix": str(conda), "base_prefix": str(conda), "sys_path": [str(site)]}
    context = make_context(tmp_path, "python", "train.py", python=hello)
    facts = python_env.capture(context)
    assert (facts["kind"], facts["conda_env"], facts["conda_count"]) == ("conda", "digits", 5)
    assert facts["files"] == ["environment.txt", "environment.yml"]
    text = (context.attachments / "environment.yml").read_text()
    assert "tk-abcdef123456" not in text
    read = yaml.safe_load(text)
    assert read["name"] == "digits"
    assert read["channels"] == ["conda-forge", "defaults", "https://conda.example.com/private"]
    assert read["dependencies"][:-2] == [
        "_libgcc_mutex=0.1=conda_forge",
        "ca-certificates=2024.7.4=hbcca054_0",
        "numpy=1.26.4=py311h64a7726_0",
        "python=3.11.9=h955ad1f_0",
        "yaml=0.2.5=7",
    ]
    assert read["dependencies"][-2] == "pip"
    assert read["dependencies"][-1] == {
        "pip": [f"lib @ git+https://git.example.com/lib.git@{'a' * 40}", "torch==2.3.1+cu121"]
    }


def test_conda_channels_without_a_history(conda):
    (conda / "conda-meta" / "history").unlink()
    facts = read_conda_environment(conda, [])
    assert facts.channels[0] == "conda-forge"
    assert set(facts.channels[1:]) == {"defaults", "https://conda.example.com/private"}


@in_one_test(
    ("name", "text", "pins", "complete"),
    [
        (
            "requirements.txt",
            "# c\nnumpy==1.26.4  # why\ntorch[x]==2.3.1; python_version > '3.8'\n\n--index-url https://x\n",
            {"numpy": {"1.26.4"}, "torch": {"2.3.1"}},
            True,
        ),
        ("requirements.txt", "numpy>=1.20\ntorch==2.3.1\n", {"torch": {"2.3.1"}}, False),
        ("requirements.txt", "-r base.txt\ntorch==2.3.1\n", {"torch": {"2.3.1"}}, False),
        (
            "requirements.txt",
            "numpy==1.26.4 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n",
            {"numpy": {"1.26.4"}},
            True,
        ),
        (
            "uv.lock",
            'version = 1\n\n[[package]]\nname = "numpy"\nversion = "1.26.4"\nsource = { registry = "x" }\n'
            '\n[[package]]\nname = "numpy"\nversion = "2.0.0"\n'
            '\n[[package]]\nname = "my_pkg"\nsource = { editable = "." }\n',
            {"numpy": {"1.26.4", "2.0.0"}},
            True,
        ),
        (
            "poetry.lock",
            '[[package]]\nname = "Numpy"\nversion = "1.26.4"\ndescription = "a"\n',
            {"numpy": {"1.26.4"}},
            True,
        ),
        (
            "poetry.lock",
            '[[package]]\nname = "ours"\nsource = {path = "."}\n\n'
            '[[package]]\ndescription = "a"\nversion = "2.0"\nname = "b"\n',
            {"b": {"2.0"}},
            True,
        ),
        ("uv.lock", "[[package]\nname", {}, True),
        (
            "Pipfile.lock",
            '{"default": {"numpy": {"version": "==1.26.4"}, "x": {"git": "u"}}, "develop": {}}',
            {"numpy": {"1.26.4"}},
            True,
        ),
        (
            "conda-lock.yml",
            "package:\n- name: numpy\n  version: 1.26.4\n  manager: conda\n- name: pip\n  version: '24.0'\n",
            {"numpy": {"1.26.4"}, "pip": {"24.0"}},
            True,
        ),
        (
            "environment.yml",
            "name: a\nchannels:\n  - conda-forge\n  - defaults\ndependencies:\n  - numpy=1.26.4=py311_0\n"
            "  - python=3.11\n  - pip:\n    - torch==2.3.1\n",
            {"numpy": {"1.26.4"}, "python": {"3.11"}, "torch": {"2.3.1"}},
            True,
        ),
        (
            "environment.yml",
            "channels:\n  - defaults\ndependencies:\n  - numpy\n  - python=3.11\n",
            {"python": {"3.11"}},
            False,
        ),
        ("environment.yml", "dependencies: [python=3.11]\n", {"python": {"3.11"}}, True),
        (
            "environment.yml",
            "dependencies:\n- conda-forge::numpy=1.26.4  # pinned, see #12\n- 'pip=24.0'\n",
            {"numpy": {"1.26.4"}, "pip": {"24.0"}},
            True,
        ),
        ("environment.yml", "dependencies: [\n", {}, False),
    ],
)
def test_pins_of_each_kind_of_lock_file(name, text, pins, complete):
    assert lockfiles.read_pins(lockfiles.lockfile_kind(name), text) == (pins, complete)


def test_lock_files_are_compared_with_what_is_installed(code, venv, make_context):
    site = site_of(venv)
    dist_info(site, "numpy", "1.26.4")
    dist_info(site, "torch", "2.3.1+cu121")
    dist_info(site, "extra", "1.0")
    (code / "requirements.txt").write_text("numpy==1.26.4\ntorch==2.3.1\nextra==1\nabsent==3\n")
    (code / "uv.lock").write_text('[[package]]\nname = "numpy"\nversion = "1.25.0"\n')
    (code / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    (code / "sub").mkdir()
    (code / "sub" / "go.py").write_text("1\n")
    (code / "sub" / "requirements-dev.txt").write_text("foo\n")
    (code / "requirements" / "old.txt").mkdir(parents=True)  # reading a pipe in its place would never end
    context = make_context(code, "python", "sub/go.py", python=hello_of(venv / "bin" / "python"))
    facts = capture_after(context)
    files = {f["path"]: f for f in facts["lockfiles"]["files"]}
    assert set(files) == {"requirements.txt", "uv.lock", "pyproject.toml", "sub/requirements-dev.txt"}
    good = files["requirements.txt"]
    assert (good["matches"], good["mismatch_count"], good["not_installed"], good["not_locked"]) == (True, 0, 1, 0)
    wrong = files["uv.lock"]
    assert (wrong["matches"], wrong["not_locked"]) == (False, 2)
    assert wrong["mismatches"] == [{"name": "numpy", "locked": "1.25.0", "installed": "1.26.4"}]
    assert files["pyproject.toml"]["locks"] is False
    assert files["sub/requirements-dev.txt"]["matches"] is None


@pytest.mark.process
def test_a_missing_lock_file_is_reported(tmp_path, make_context):
    facts = capture_after(make_context(tmp_path, "python", "train.py", python=hello_of(sys.executable)))
    assert "no lock file" in facts["lockfiles"]["unavailable"]
    assert facts["python"]["packages"]["pytest"] == metadata.version("pytest")
