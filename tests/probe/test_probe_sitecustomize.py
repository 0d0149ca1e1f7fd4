"""The user's own `sitecustomize` runs, fails and is seen exactly as without the probe."""

import pytest

MINE = {
    "none": {},
    "good": {"sitecustomize.py": "import sys; sys.stderr.write('mine %s\\n' % __name__); VALUE = 7"},
    "raising": {"sitecustomize.py": "raise RuntimeError('my own trouble')"},
    "missing": {"sitecustomize.py": "import nothing_of_this_name"},
    "bare": {"sitecustomize.py": "raise ImportError('bare')"},
    "syntax": {"sitecustomize.py": "def :"},
    "package": {"sitecustomize/__init__.py": "import sys; sys.stderr.write('package\\n'); VALUE = 8"},
}
LOOK = "import sys; m = sys.modules.get('sitecustomize'); print(getattr(m, 'VALUE', None), sys.path[1:])"


@pytest.mark.parametrize("kind", list(MINE))
def test_output_is_that_of_a_start_without_the_probe(probed, python, kind):
    for name, text in MINE[kind].items():
        probed.write(f"site/{name}", text)
    where = str(probed.folder / "site")
    plain = probed.plain(python, "-c", LOOK, PYTHONPATH=where)
    done = probed(python, "-c", LOOK, PYTHONPATH=where, check=None)
    assert (done.code, done.out, done.err) == (plain.returncode, plain.stdout, plain.stderr)
    assert len(done.hellos) == 1


def test_one_that_ends_the_interpreter_still_ends_it(probed, python):
    probed.write("site/sitecustomize.py", "raise SystemExit(5)")
    where = str(probed.folder / "site")
    plain = probed.plain(python, "-c", LOOK, PYTHONPATH=where)
    done = probed(python, "-c", LOOK, PYTHONPATH=where, check=None)
    assert done.code == plain.returncode != 0
    assert done.err.splitlines()[-1] == plain.stderr.splitlines()[-1]


@pytest.mark.parametrize("kind", list(MINE))
def test_old_interpreters_too(probed, old_python, kind):
    for name, text in MINE[kind].items():
        probed.write(f"site/{name}", text)
    where = str(probed.folder / "site")
    plain = probed.plain(old_python, "-c", LOOK, PYTHONPATH=where)
    done = probed(old_python, "-c", LOOK, PYTHONPATH=where, check=None)
    assert (done.code, done.out, done.err) == (plain.returncode, plain.stdout, plain.stderr)


def test_the_folder_holds_nothing_else():
    from pathlib import Path

    import labbook.probe

    # Python 2 leaves what it compiled beside the file, as it does with every module.
    folder = Path(labbook.probe.__file__).parent / "inject"
    held = [path.name for path in folder.iterdir() if path.name != "__pycache__" and path.suffix != ".pyc"]
    assert held == ["sitecustomize.py"]
