"""The schema of events names what the probe writes, and readers read what it names."""

import ast
import typing

from order_of_tests import in_one_test
from source_trees import PACKAGE, nodes_of

from labbook.model.events import KINDS
from labbook.probe.events import protocol

NAMES = {name: value for name, value in vars(protocol).items() if isinstance(value, str)}
READERS = (
    *sorted(set((PACKAGE / "health").rglob("*.py")) - {PACKAGE / "health" / "checklist.py"}),
    *sorted((PACKAGE / "record" / "run_from_journal").glob("*.py")),
    PACKAGE / "diagnosis" / "run_evidence.py",
    PACKAGE / "capture" / "used_files.py",
)
OTHER_FACTS = {
    *("id", "author", "experiment", "script", "tags", "started", "last_seen", "child_pid", "code", "ended"),
    *("project", "top", "ending", "child_signal", "reader_died", "stalled", "stopped", "time_limit", "memory_free"),
    *("container", "compiled", "trainings", "notebook", "cells"),
    *("resources", "hardware", "gpus", "cores", "mean_utilisation_percent", "own_peak_memory_bytes"),
    *("load_per_core", "cpu_mean_cores"),
    *(
        "sweep",
        "rerun_of",
        "ranks",
        "bad_step",
        "hung_s",
        "left_at",
        "joined",
        "wanted",
        "data_s",
        "call",
        "failed_at",
        "stack",
        "odd",
        "others",
        "halves",
        "places",
        "kind",
        "step_s",
        "waiting",
        "whole_step_s",
    ),  # of a row of the roll-call
    "",  # the root of a tree of modules
    *(
        "T_max",
        "total_steps",
        "weight_decay",
        "grad_clip",
        "learning_rate",
    ),  # options of the program's own scheduler and optimizer
}
"""What these files read of other facts than events."""


def written_fields():
    """(kind, field, place) of each field that the probe's code writes by name."""
    for path in sorted((PACKAGE / "probe").rglob("*.py")):
        for node in nodes_of(path):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], (ast.Name, ast.Attribute)):
                first = node.args[0]
                name = first.id if isinstance(first, ast.Name) else first.attr
                if NAMES.get(name) in protocol.KINDS:
                    for keyword in node.keywords:
                        if keyword.arg is not None:
                            yield NAMES[name], keyword.arg, f"{path.name}:{node.lineno}"


def fields_of(hint):
    """All names of fields in a type, at any depth."""
    if typing.is_typeddict(hint):
        yield from hint.__annotations__
    if typing.is_typeddict(hint) and hint not in fields_of.seen:
        fields_of.seen.add(hint)
        for inner in typing.get_type_hints(hint).values():
            yield from fields_of(inner)
    for inner in typing.get_args(hint):
        yield from fields_of(inner)


fields_of.seen = set()


def test_the_probe_and_the_schema_have_the_same_kinds():
    assert len(set(protocol.KINDS)) == len(protocol.KINDS)
    assert set(KINDS) == set(protocol.KINDS)


def test_every_field_that_the_probe_names_is_in_the_schema():
    written = list(written_fields())
    assert len({kind for kind, _, _ in written}) > 25
    assert not [one for one in written if one[1] not in KINDS[one[0]].__annotations__]


@in_one_test("path", READERS, ids=lambda path: path.stem)
def test_readers_read_fields_of_the_schema(path):
    """Where the result is only tested for truth, mypy takes any key in `event.get(key)`."""
    fields_of.seen.clear()
    known = {name for kind in KINDS.values() for name in fields_of(kind)}
    read = {
        node.args[0].value
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get"
        if node.args and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)
    }
    assert not read - known - OTHER_FACTS
