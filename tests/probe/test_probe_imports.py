"""A watched module is announced once, after its import, and looks as if nobody had watched."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

WATCH = """
import sys
probe = sys._labbook_probe
fired = []
for name in ("mod", "pack", "pack.deep", "space.inner", "_lsprof", "broken", "vanishing"):
    probe.watch(name, lambda module, name=name: fired.append((name, module.__name__)))
"""

PROGRAMS = {
    "fires once": "import mod; import mod; from mod import value; print(fired)",
    "type of the loader": (
        "import mod; print(type(mod.__loader__), vars(mod.__loader__), mod.__spec__.loader is mod.__loader__)"
    ),
    "find_spec": "import importlib.util as u; print(u.find_spec('mod').name, fired); import mod; print(fired)",
    "getsource": "import mod, inspect; print(inspect.getsource(mod.function), inspect.getsourcefile(mod))",
    "resources": (
        "import pack, importlib.resources as r\n"
        "new = hasattr(r, 'files')\n"
        "print(r.files('pack').joinpath('data.txt').read_text() if new else r.read_text('pack', 'data.txt'))"
    ),
    "pkgutil": (
        "import pack, pkgutil\n"
        "print(pkgutil.get_data('pack', 'data.txt'), [m.name for m in pkgutil.iter_modules(pack.__path__)])"
    ),
    "reload": (
        "import mod, importlib; a = mod.function; importlib.reload(mod); print(mod.value, a is mod.function, fired)"
    ),
    "submodule": "import pack.deep; print(fired, pack.deep.__spec__.parent)",
    "namespace": "import space.inner; print(fired, space.__path__._path if hasattr(space.__path__, '_path') else '')",
    "extension": "import _lsprof; print(fired, type(_lsprof.__loader__))",
    "failing import": (
        "for _ in range(2):\n"
        "    try:\n"
        "        import broken\n"
        "    except ValueError as error:\n"
        "        import traceback; traceback.print_exc()\n"
        "print(fired)"
    ),
    "failing import, uncaught": "import broken",
    "missing": "import nothing_like_it",
    "replaces itself": "import vanishing; print(vanishing, fired)",
    "lazy loader": (
        "import importlib.util as u\n"
        "spec = u.find_spec('mod'); lazy = u.LazyLoader(spec.loader); spec.loader = lazy\n"
        "module = u.module_from_spec(spec); sys.modules['mod'] = module; lazy.exec_module(module)\n"
        "print(fired, module.value, fired)"
    ),
    "threads": (
        "import threading\n"
        "def load():\n"
        "    import mod\n"
        "threads = [threading.Thread(target=load) for _ in range(8)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]; print(fired)"
    ),
}


@pytest.fixture
def modules(probed):
    probed.write("mod.py", "value = 3\ndef function():\n    return value\n")
    probed.write("pack/__init__.py", "")
    probed.write("pack/deep.py", "x = 1")
    probed.write("pack/data.txt", "data")
    probed.write("pack/__main__.py", "print('main of pack', __spec__.name)")
    probed.write("space/inner.py", "x = 1")
    probed.write("broken.py", "def fail():\n    raise ValueError('broken')\nfail()\n")
    probed.write(
        "vanishing.py",
        "import sys\nclass Stand: __name__ = 'stand-in'; __repr__ = lambda s: 'Stand'\n"
        "sys.modules[__name__] = Stand()\n",
    )
    return probed


@pytest.mark.parametrize("what", list(PROGRAMS))
def test_modules_behave_as_without_the_probe(modules, python, what):
    modules.write("look.py", "import sys\nfired = []\n" + PROGRAMS[what])
    plain = modules.plain(python, "look.py")
    modules.write("look.py", "import sys\nfrom watching import fired\n" + PROGRAMS[what])
    modules.write("watching.py", WATCH)
    done = modules(python, "look.py", check=None)
    assert done.code == plain.returncode
    assert done.err == plain.stderr
    assert not done.of("probe_error")
    fired = {
        "fires once": "[('mod', 'mod')]\n",
        "find_spec": "mod []\n[('mod', 'mod')]\n",
        "submodule": "[('pack', 'pack'), ('pack.deep', 'pack.deep')] pack\n",
        "failing import": "[]\n",
        "replaces itself": "Stand [('vanishing', 'stand-in')]\n",
        "threads": "[('mod', 'mod')]\n",
    }
    if what in fired:
        assert done.out.startswith(fired[what])
    elif what == "reload":
        assert done.out == "3 False [('mod', 'mod')]\n"
    elif what == "extension":
        # In some builds the module is part of the interpreter, and such loaders are never touched.
        assert done.out.startswith("[('_lsprof', '_lsprof')]") == ("ExtensionFileLoader" in done.out)
    elif what == "namespace":
        assert done.out.startswith("[('space.inner', 'space.inner')]")
    elif what == "lazy loader":
        assert done.out == "[] 3 [('mod', 'mod')]\n" or done.out == "[('mod', 'mod')] 3 [('mod', 'mod')]\n"
    else:
        assert done.out == plain.stdout


def test_a_watched_package_can_be_run(modules, python):
    modules.write("sitecustomize.py", WATCH)
    done = modules(python, "-m", "pack", PYTHONPATH=str(modules.folder))
    assert (done.out, done.err) == ("main of pack pack.__main__\n", "")


def test_the_finder_leaves_when_nothing_is_watched(probed):
    code = (
        "import sys\n"
        "finder = sys._labbook_probe.finder\n"
        "assert sys.meta_path[0] is finder\n"
        "finder._watched.clear()\n"
        "sys._labbook_probe.watch('queue', print)\n"
        "import queue\n"
        "print(finder in sys.meta_path)"
    )
    done = probed(sys.executable, "-c", code)
    assert done.out.splitlines()[-1] == "False"


def test_a_finder_of_the_old_kind_is_left_to_the_interpreter(probed):
    code = (
        "import sys\n"
        "class Old:\n"
        "    def find_module(self, name, path=None): return None\n"
        "sys.meta_path.insert(1, Old())\n"
        "sys._labbook_probe.watch('queue', print)\n"
        "import warnings; warnings.simplefilter('ignore')\n"
        "import queue; print(queue.Queue)"
    )
    done = probed(sys.executable, "-c", code)
    assert done.out.splitlines()[-1] == "<class 'queue.Queue'>"
    assert not done.of("probe_error")


def test_a_callback_that_fails_is_counted_and_the_import_goes_on(probed):
    code = "import sys\nsys._labbook_probe.watch('queue', lambda m: 1 / 0)\nimport queue; print(queue.Queue)"
    done = probed(sys.executable, "-c", code)
    assert done.out == "<class 'queue.Queue'>\n"
    assert [e["where"] for e in done.of("probe_error")] == ["imported queue"]


@pytest.mark.parametrize("framework", ["torch", "paddle"])
def test_what_one_framework_needs_loads_no_framework_and_nothing_of_the_other(framework):
    other = {"torch": "paddle", "paddle": "torch"}[framework]
    code = (
        "import importlib, pkgutil, sys\n"
        f"for room in ('inspection', 'training', '{framework}'):\n"
        "    package = importlib.import_module('labbook.probe.' + room)\n"
        "    for module in pkgutil.iter_modules(package.__path__):\n"
        "        importlib.import_module(package.__name__ + '.' + module.name)\n"
        "frameworks = ('torch', 'paddle', 'numpy')\n"
        f"print([n for n in sys.modules if n in frameworks or n.startswith('labbook.probe.{other}')])"
    )
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert seen.stdout.strip() == "[]", seen.stdout + seen.stderr
