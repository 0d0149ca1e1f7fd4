"""A model that was trained under labbook is for its owner the same object: scripted, traced, saved, copied, shown."""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.slow
OPERATIONS = {
    "torch": (
        *("script", "trace", "add_graph", "export", "compiled", "compiled_step", "symbolic", "saved", "copied"),
        *("attributes", "hooks", "signatures", "tracebacks", "profiled", "after_all"),
    ),
    "paddle": ("to_static", "jit_save", "saved", "copied", "attributes", "hooks", "signatures", "tracebacks"),
}
STEPS = (3, 300)
"""The first steps are all observed closely; after 300 the loop is steady and most steps are only counted."""

NUMBERS = re.compile(r"\d+")
"""Times and process numbers of log lines."""

RECORDINGS = [
    (3, "deep"),
    *(pytest.param(3, level, marks=pytest.mark.long) for level in ("off", "light", "normal")),
    *(pytest.param(300, level, marks=pytest.mark.long) for level in ("off", "light", "normal", "deep")),
]


@pytest.fixture(scope="module")
def results(run):
    """`results(framework, level, steps)`: what each operation printed, and `stderr`; level None: without labbook."""
    known = {}

    def of(framework, level, steps):
        key = framework, level, steps
        if key not in known:
            settings = {"level": level} if level else None
            program = f"model_unchanged_{framework}.py"
            # A compiler looks at what was imported when, so that PyTorch starts anew under the probe.
            fork = None if framework == "torch" and level else framework
            outcome = run(program, steps, probe=bool(level), fork=fork, settings=settings, timeout=240)
            assert outcome.of("probe_error") == []
            known[key] = outcome.result | {"stderr": NUMBERS.sub("0", outcome.err)}
        return known[key]

    return of


@pytest.mark.parametrize(
    ("framework", "operation"),
    [
        pytest.param(framework, operation, marks=getattr(pytest.mark, framework))
        for framework, operations in OPERATIONS.items()
        for operation in operations
    ],
)
@pytest.mark.parametrize(("steps", "level"), RECORDINGS)
def test_operations_on_a_trained_model_give_what_they_give_without_labbook(results, steps, level, framework, operation):
    bare, recorded = results(framework, None, steps), results(framework, level, steps)
    for mode in ("train", "eval"):
        name = mode + " " + operation
        assert recorded[name] == bare[name]


FRAMEWORKS = pytest.mark.parametrize(
    "framework", [pytest.param(name, marks=getattr(pytest.mark, name)) for name in OPERATIONS]
)


@FRAMEWORKS
def test_every_operation_of_the_program_is_compared(results, framework):
    compared = results(framework, None, STEPS[0]).keys() - {"stderr"}
    assert {name.split()[1] for name in compared} == set(OPERATIONS[framework])


@FRAMEWORKS
@pytest.mark.parametrize(("steps", "level"), RECORDINGS)
def test_nothing_more_is_printed(results, steps, level, framework):
    assert results(framework, level, steps)["stderr"] == results(framework, None, steps)["stderr"]
