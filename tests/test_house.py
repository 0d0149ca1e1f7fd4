"""The architecture rules of CONTRIBUTING.md: layers, third-party imports, file sizes, isolated probe, start-up."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from order_of_tests import in_one_test
from source_trees import PACKAGE, nodes_of, python_files, syntax_of

ROOT = Path(__file__).resolve().parents[1]
FILES = python_files()

FLOORS = {
    "__init__": 1,
    "errors": 0,
    "screen": 0,
    "crash_report": 0,
    "frozen": 0,
    "api": 0,
    "live_recording": 1,
    "kernel_front_end": 0,
    "executors": 1,
    "checks": 0,
    "model": 1,
    "store": 2,
    "capture": 3,
    "health": 3,
    "diagnosis": 3,
    "index": 3,
    "report": 3,
    "review": 3,
    "artifacts": 4,
    "compare": 4,
    "dataset": 4,
    "fixes": 5,
    "findings": 6,
    "record": 7,
    "sharing": 7,
    "publish": 7,
    "sweep": 6,
    "imports": 8,
    "help_text": 8,
    "rerun": 8,
    "installation_check": 8,
    "pytest_plugin": 8,
    "execute_notebook": 8,
    "last_run": 8,
    "notebook_magics": 8,
    "commands": 9,
    "cli": 10,
    "__main__": 11,
}
DOORS = {
    "jsonschema": {"findings/configuration_schema.py"},
    "fsspec": {"store/remote_files.py"},
    "git": {"store/git/repository.py"},
    "jinja2": {"store/text/templates.py"},
    "yaml": {"store/text/frontmatter.py", "publish/site/mkdocs_settings.py", "findings/yaml_types.py"},
    "mkdocs": {
        f"publish/{name}.py"
        for name in ("plugin", "site/site_build", "site/incremental_build", "html/rendering", "site/site_files")
    },
    "watchdog": {"publish/site/file_watch.py"},
    "rich": {"screen.py"},
    "duckdb": {"dataset/notebook_query.py"},
    "pyarrow": {"dataset/notebook_query.py", "dataset/parquet_files.py", "commands/query_sql.py"},
}
PROBE_API = {"labbook.probe.events.protocol", "labbook.probe.redaction"}
"""The only modules of the probe that other packages may import."""

SLOW_IMPORTS = {*DOORS, "sqlite3", "platformdirs", "filelock", "markdown"}
FORBIDDEN_NAMES = {"utils", "helpers", "common", "misc"}


def room_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else path.stem


@cache
def imports_of(path: Path) -> list[tuple[str, bool]]:
    """Dotted names that a file imports, with whether it does so at the top level."""
    tree = syntax_of(path)
    top = set()
    for node in tree.body:
        typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and not typing_only:
            top.update(ast.walk(node))
    found = []
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found += [(alias.name, node in top) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.append((node.module, node in top))
            if node.module.startswith("labbook"):
                found += [(f"{node.module}.{alias.name}", node in top) for alias in node.names]
    return found


def test_every_room_has_a_floor():
    assert {room_of(path) for path in FILES} - {"probe"} <= set(FLOORS)


def test_modules_import_only_from_lower_floors_or_their_own_room():
    broken = []
    for path in FILES:
        room = room_of(path)
        if room == "probe":
            continue
        for name, _ in imports_of(path):
            parts = name.split(".")
            if parts[0] != "labbook" or len(parts) < 2:
                continue
            other = parts[1]
            if other == "probe":
                allowed = any(f"{name}.".startswith(f"{door}.") or door.startswith(f"{name}.") for door in PROBE_API)
                if not allowed:
                    broken.append(f"{path.relative_to(ROOT)} imports {name}")
                continue
            if other in FLOORS and other != room and FLOORS[other] >= FLOORS[room]:
                broken.append(f"{path.relative_to(ROOT)} (floor {FLOORS[room]}) imports {name} (floor {FLOORS[other]})")
    assert not broken, "\n".join(broken)


def test_outside_libraries_come_through_their_doors():
    broken = []
    for path in FILES:
        here = path.relative_to(PACKAGE).as_posix()
        for name, _ in imports_of(path):
            library = name.split(".")[0]
            if library in DOORS and here not in DOORS[library]:
                broken.append(f"{here} imports {name}; the door is {', '.join(sorted(DOORS[library]))}")
    assert not broken, "\n".join(broken)


def test_slow_libraries_are_imported_where_they_are_used():
    # Loaded when a site is built, by MkDocs or by us.
    allowed_at_top = {
        "publish/plugin.py",
        "publish/html/rendering.py",
        *(f"publish/site/{name}.py" for name in ("incremental_build", "site_files", "mkdocs_settings")),
    }
    broken = [
        f"{path.relative_to(PACKAGE)} imports {name} at the top"
        for path in FILES
        for name, top in imports_of(path)
        if top and name.split(".")[0] in SLOW_IMPORTS and path.relative_to(PACKAGE).as_posix() not in allowed_at_top
    ]
    assert not broken, "\n".join(broken)


def test_the_probe_imports_only_the_standard_library_and_itself():
    watched = {
        "torch": {"torch", "training"},
        "paddle": {"paddle", "training"},
        "numpy": {"torch", "paddle"},
        "ray": {"process"},
    }
    broken = []
    for path in sorted((PACKAGE / "probe").rglob("*.py")):
        for name, top in imports_of(path):
            library = name.split(".")[0]
            if library == "_labbook_probe" or library in sys.stdlib_module_names:
                continue
            # An adapter may import the framework that the program itself has already imported, inside a function.
            if not top and path.parent.name in watched.get(library, ()):
                continue
            broken.append(f"{path.relative_to(ROOT)} imports {name}")
    assert not broken, "\n".join(broken)


PROBE_FLOORS = {
    "events": 1,
    "redaction": 2,
    "process": 3,
    "training": 4,
    "inspection": 5,
    "torch": 6,
    "paddle": 6,
}
"""A module of the probe imports from its own room, from rooms on lower floors, and from `GROUND`."""

GROUND = {"imports", "wrapping", "guard"}


def probe_imports() -> dict[str, set[str]]:
    """Module of the probe -> modules of the probe that it imports, also inside functions; `torch/adapter` is a name."""
    probe = PACKAGE / "probe"
    names = {path.relative_to(probe).with_suffix("").as_posix(): path for path in probe.rglob("*.py")}
    found: dict[str, set[str]] = {}
    for name, path in names.items():
        found[name] = set()
        for node in nodes_of(path):
            if isinstance(node, ast.ImportFrom) and node.level:
                folder = name.split("/")[: -node.level]
                base = [*folder, *(node.module or "").split(".")] if node.module else folder
                candidates = {"/".join(base), *("/".join([*base, alias.name]) for alias in node.names)}
                found[name] |= candidates & names.keys()
    return found


def test_rooms_of_the_probe_import_only_from_below_and_frameworks_not_from_each_other():
    broken = []
    for name, imported in probe_imports().items():
        room = name.rpartition("/")[0]
        for other in imported - GROUND:
            below = other.rpartition("/")[0]
            fine = below == room or PROBE_FLOORS.get(below, 9) < PROBE_FLOORS.get(room, 9)
            if room != "inject" and not fine:
                broken.append(f"{name} imports {other}")
    assert not broken, "\n".join(sorted(broken))


def test_no_modules_import_each_other_in_a_circle():
    """Late imports and those for types alone count: who reads one module of a circle has to read them all."""
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in FILES}
    imports = {name: {other for other, _ in imports_of(path) if other in modules} for name, path in modules.items()}

    TopologicalSorter(imports).prepare()  # raises an error that names the circle
    TopologicalSorter(probe_imports()).prepare()


def test_packages_of_the_probe_import_nothing():
    """Each import delays every Python process of a recorded command."""
    for path in (PACKAGE / "probe").rglob("__init__.py"):
        assert len(syntax_of(path).body) == 1, f"{path} holds more than its docstring"


SAME_NAME_ALLOWED = {"probe/torch", "probe/paddle", "probe/inspection"}
"""Twins of one framework and the other, and what they share, have one name."""


def test_a_file_name_stands_once_in_the_tree():
    folders: dict[str, list[str]] = {}
    for path in FILES:
        folder = path.parent.relative_to(PACKAGE).as_posix()
        if path.name != "__init__.py" and folder not in SAME_NAME_ALLOWED:
            folders.setdefault(path.name, []).append(folder)
    twins = {path.name for path in FILES if path.parent.relative_to(PACKAGE).as_posix() in SAME_NAME_ALLOWED}
    twice = {name for name, found in folders.items() if len(found) > 1 or (name in twins and name != "__init__.py")}
    assert not twice, sorted(twice)


def test_the_probe_is_python_38():
    for path in sorted((PACKAGE / "probe").rglob("*.py")):
        ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))


def test_the_injected_folder_holds_one_file():
    # What an interpreter compiled is no file of ours.
    held = {path.name for path in (PACKAGE / "probe" / "inject").iterdir()} - {"__pycache__", "sitecustomize.pyc"}
    assert held == {"sitecustomize.py"}


@in_one_test("folder", ["labbook", "tests", "benchmarks", "examples", "templates"])
def test_files_stay_under_400_lines(folder):
    kinds = {".py", ".j2", ".sql", ".css", ".js", ".toml", ".yml", ".md"}
    long = {
        str(path.relative_to(ROOT)): count
        for path in (ROOT / folder).rglob("*")
        if path.suffix in kinds and "data" not in path.parts and "vendor" not in path.parts
        if (count := len(path.read_text(encoding="utf-8").splitlines())) >= 400
    }
    assert not long, long


def test_names_say_what_is_inside():
    broken = [
        str(path.relative_to(ROOT))
        for path in FILES
        if path.stem in FORBIDDEN_NAMES or (path.parent == PACKAGE and path.stem in sys.stdlib_module_names)
    ]
    assert not broken, broken


def test_public_things_have_docstrings():
    bare = []
    for path in FILES:
        tree = syntax_of(path)
        if not ast.get_docstring(tree) and path.name != "sitecustomize.py":
            bare.append(f"{path.relative_to(ROOT)}: module")
        for node in tree.body:
            public = isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_")
            if public and not ast.get_docstring(node):
                bare.append(f"{path.relative_to(ROOT)}: {node.name}")
    assert not bare, "\n".join(bare)


def modules_after(statement: str) -> set[str]:
    code = f"{statement}\nimport sys; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.process
def test_every_module_is_linted():
    command = [sys.executable, "-m", "ruff", "check", "--show-files", str(PACKAGE)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert {str(path) for path in FILES} <= set(listed.splitlines())


@pytest.mark.process
def test_help_imports_no_command_and_no_slow_library():
    loaded = modules_after("import labbook.cli")

    assert not loaded & (SLOW_IMPORTS - {"sqlite3"})
    assert not {name for name in loaded if name.startswith("labbook.commands.")}


@pytest.mark.process
def test_ctrl_c_while_labbook_is_imported_ends_it_without_a_word():
    code = (
        "import sys; before = set(sys.modules)\n"
        "import labbook.__main__ as entry\n"
        "assert not {'typing', 'click', 'labbook.api'} & (set(sys.modules) - before), 'nothing catches Ctrl-C here'\n"
        "import types\n"
        "class Stopped(types.ModuleType):\n"
        "    def __getattr__(self, name): raise KeyboardInterrupt\n"
        "sys.modules['click'] = Stopped('click')\n"
        "sys.exit(entry.main())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.process
def test_recording_starts_without_slow_libraries():
    """What happens before the command starts must not wait for libraries that only the end needs."""
    loaded = modules_after(
        "import labbook.cli, labbook.commands.record, labbook.record.session, labbook.record.child.supervisor"
    )

    assert not loaded & (SLOW_IMPORTS | {"torch", "paddle", "numpy", "importlib.metadata"})


def test_every_command_of_the_table_loads_and_has_help():
    from labbook.cli import COMMANDS, labbook

    for name in COMMANDS:
        loaded = labbook.get_command(None, name)  # type: ignore[arg-type]
        assert loaded is not None
        assert loaded.help, f"{name} has no help"


def test_every_command_is_in_the_table():
    from labbook.cli import COMMANDS

    in_files = {path.stem for path in (PACKAGE / "commands").glob("*.py")} - {"__init__", "options", "word_completion"}
    assert {module.rsplit(".", 1)[-1] for module, _ in COMMANDS.values()} == in_files


@pytest.mark.process
def test_nothing_names_a_machine_or_a_registry_host():
    hosts = ("pypi" + ".org", "pythonhosted" + ".org", "npmjs" + ".org", "deb.debian" + ".org", "/work" + "/main")
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    named = []
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.is_file() and path.stat().st_size < 1_000_000 and name != "LICENSE":
            text = path.read_text(encoding="utf-8", errors="replace")
            named += [f"{name}: {host}" for host in hosts if host in text]
    assert not named, "\n".join(named)


def test_packages_are_not_crowded():
    # A command is a file, and a part of a framework has one: these lists are read by name.
    by_name = {"commands", "probe/torch", "probe/paddle", "probe/training"}
    files = Counter(path.parent.relative_to(PACKAGE).as_posix() for path in FILES)
    assert not {folder: number for folder, number in files.items() if number > 30 and folder not in by_name}


def test_every_package_introduces_itself():
    """The docstring of `__init__.py` says what the room is for, where to start and what belongs elsewhere."""
    short = {}
    for path in sorted(PACKAGE.rglob("__init__.py")):
        text = ast.get_docstring(syntax_of(path)) or ""
        if "inject" not in path.parts and len(text.split()) < 60:
            short[path.relative_to(ROOT).as_posix()] = len(text.split())
    assert not short, short
