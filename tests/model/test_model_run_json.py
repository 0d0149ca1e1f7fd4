"""`run.json` holds a whole run and is read back whatever its version."""

import json
import math

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labbook import __version__
from labbook.model.run import Arguments, CaughtException, Frame, Framework, Process, Run
from labbook.model.run_json import run_from_json, run_to_json
from labbook.model.series import Series


def some_run():
    return Run(
        id="20261121-153012-k3f9",
        status="failed",
        argv=("python", "train.py"),
        cwd="~/a",
        started=1.5,
        ended=3.0,
        exit_code=1,
        frameworks=(
            Framework("torch", "2.13.0", {"cuda": None}, ({"kind": "cpu"},), {"seeds": {"torch": 1}}, ({"index": 0},)),
        ),
        arguments=(Arguments("argparse", "args", {"lr": 0.1, "deep": {"x": [1, 2]}}),),
        series=(
            Series(
                "loss", "probe", (1, 2, 3), (2.0, math.nan, math.inf), (1.0, 1.0, 1.0), (3.0, 3.0, 3.0), 30, 2, rank=1
            ),
        ),
        exceptions=(
            CaughtException(
                "main", "E", "m", "no", (Frame("a.py", 3, "f", "x", True),), (("A", "b", "cause"),), step=None
            ),
        ),
        processes=(Process(1, 0, ("python",), "main", elapsed_s=None),),
        captured={"code": {"commit": "1"}},
    )


def test_a_run_survives_strict_json():
    run = some_run()
    text = json.dumps(run_to_json(run), allow_nan=False)
    back = run_from_json(json.loads(text))
    assert repr(back) == repr(run) and json.loads(text)["labbook"] == __version__
    assert back.series[0].last == math.inf and math.isnan(back.series[0].values[1])


def test_extremes_equal_to_the_values_are_omitted_and_restored():
    run = Run(
        "i",
        "finished",
        (),
        "",
        0.0,
        series=(Series("loss", "probe", (1, 2), (1.0, math.nan), (1.0, math.nan), (1.0, math.nan), 2, 1),),
    )
    data = run_to_json(run)
    assert "low" not in data["series"][0]
    assert repr(run_from_json(data)) == repr(run)


def test_long_series_are_downsampled_on_request():
    steps = tuple(range(100_000))
    run = Run(
        "i", "finished", (), "", 0.0, series=(Series("loss", "probe", steps, tuple(map(float, steps)), count=100_000),)
    )
    short = run_to_json(run, max_points=500)
    assert len(short["series"][0]["values"]) <= 520
    assert short["series"][0]["count"] == 100_000


def test_unknown_missing_and_broken_fields_do_not_matter():
    data = run_to_json(some_run())
    data["of_tomorrow"] = {"a": 1}
    data["series"][0]["colour"] = "red"
    data["exit_code"] = "one"
    data["notes"] = 3
    data["files"] = [{"path": "a"}, 5]
    del data["cwd"], data["frameworks"][0]["version"]
    run = run_from_json(data)
    assert (run.cwd, run.exit_code, run.notes, run.files, run.frameworks[0].version) == ("", None, (), (), "")
    assert run.series[0].name == "loss"
    assert run_from_json({}).status == "lost"


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    max_leaves=8,
)


# Making the objects may take long on a busy machine.
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(
        st.sampled_from(["id", "status", "argv", "started", "series", "probe", "console", "captured", "x"]), _json
    )
)
def test_any_json_object_gives_a_run(data):
    assert isinstance(run_from_json(data), Run)
