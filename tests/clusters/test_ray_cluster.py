"""A real Ray cluster of two nodes on loopback: a program that joins it leaves one entry with all its ranks.

Ray is not among the packages of the tests: without it they are skipped. `pip install ray` and `make test-cluster`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from labbook.dataset.dataset_export import export
from labbook.store.notebook_finder import find_notebook
from tests.conftest import PROGRAMS

pytestmark = [pytest.mark.cluster, pytest.mark.process, pytest.mark.torch, pytest.mark.timeout(400)]

CLUSTER = """
import sys
from ray.cluster_utils import Cluster
node = {"num_cpus": 1, "resources": {"slot": 1}}
cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
cluster.add_node(**node)
cluster.wait_for_nodes()
print("address", cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Address of a cluster that was started without the probe."""
    pytest.importorskip("ray")
    environ = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    with subprocess.Popen(
        [sys.executable, "-c", CLUSTER], env=environ, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as cluster:
        lines = iter(cluster.stdout.readline, "")
        found = next((line.split()[1] for line in lines if line.startswith("address ")), "")
        assert found, "the cluster did not start"
        yield found
        cluster.stdin.close()


def entries(book):
    return [json.loads(path.read_text()) for path in (book.folder / "notes" / "runs").rglob("run.json")]


def test_ranks_on_two_nodes_are_one_entry(book, address, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", address)
    shutil.copy(PROGRAMS / "ray_ranks.py", book.folder)
    done = book.record(sys.executable, "ray_ranks.py", timeout=300)
    assert "nodes 2" in done.stdout
    [run] = entries(book)
    assert [row["rank"] for row in run["captured"]["ranks"]["rows"]] == [0, 1]
    assert {series["rank"] for series in run["series"] if series["name"] == "loss"} == {0, 1}
    assert run["status"] == "finished" and {row["status"] for row in run["captured"]["ranks"]["rows"]} == {"finished"}
    assert not [one for one in run["arguments"] if "raylet_name" in one["values"]], "options of Ray's own program"


def arguments(book, name, planted):
    """Arguments of a program of two ranks; Ray Train wants a folder, and pandas for its results."""
    shutil.copy(PROGRAMS / name, book.folder)
    if name == "ray_train.py":
        pytest.importorskip("pandas")
    return [name, planted, *([str(book.folder / "results")] if name == "ray_train.py" else [])]


@pytest.mark.parametrize("name", ["ray_ranks.py", "ray_train.py"])
def test_the_rank_that_failed_is_named_with_its_line(book, address, monkeypatch, name):
    monkeypatch.setenv("RAY_ADDRESS", address)
    done = book.record(sys.executable, *arguments(book, name, "planted"), check=False, timeout=300)
    assert done.returncode == 1
    [run] = entries(book)
    odd = run["captured"]["ranks"]["odd"]
    text = (PROGRAMS / name).read_text().splitlines()
    line = next(number for number, text in enumerate(text, 1) if "LINE planted" in text)
    assert (odd["kind"], odd["ranks"], odd["where"]["line"]) == ("failed", [1], line)


@pytest.mark.parametrize("name", ["ray_ranks.py", "ray_train.py"])
def test_a_hang_is_named_while_it_lasts_and_in_the_entry(book, address, monkeypatch, name):
    monkeypatch.setenv("RAY_ADDRESS", address)
    with subprocess.Popen(
        [sys.executable, "-m", "labbook", "record", "--", sys.executable, *arguments(book, name, "hang")],
        cwd=book.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as recording:  # fmt: skip
        lines = iter(recording.stdout.readline, "")
        seen = next((line for line in lines if "no progress for" in line), "")
        recording.terminate()
        recording.communicate(timeout=60)
    [run] = entries(book)
    odd = run["captured"]["ranks"]["odd"]
    texts = (PROGRAMS / name).read_text().splitlines()
    hang, backward = (
        next(n for n, text in enumerate(texts, 1) if part in text) for part in ("LINE hang", "backward()")
    )
    place = f"rank 1 has not entered backward at {name}:{backward}, where rank 0 waits; rank 1 is at {name}"
    assert place in seen
    assert (odd["kind"], odd["ranks"], odd["where"]["line"]) in [("elsewhere", [1], n) for n in (hang - 1, hang)]
    assert "stalled_no_progress" in [check["id"] for check in run["checks"] if check["verdict"] == "warn"]


def test_trials_of_ray_tune_are_runs_of_their_own(book, address, monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.setenv("RAY_ADDRESS", address)
    shutil.copy(PROGRAMS / "ray_trials.py", book.folder)
    book.record(sys.executable, "ray_trials.py", timeout=380)
    runs = entries(book)
    whole = next(run for run in runs if "trials" in run["captured"])
    trials = sorted((run for run in runs if run is not whole), key=lambda run: run["captured"]["trial"]["number"])
    assert [row["params"] for row in whole["captured"]["trials"]["rows"]] == [{"lr": 0.01}, {"lr": 0.1}]
    assert whole["captured"]["trials"]["best"] == 0, "a failed trial is not the best"
    assert not [one for one in whole["arguments"] if "lr" in one["values"]], "options of a trial"
    assert [(run["status"], run["arguments"][0]["values"]) for run in trials] == [
        ("finished", {"lr": 0.01, "width": 4}),
        ("failed", {"lr": 0.1, "width": 4}),
    ]
    assert {len(series["values"]) for run in trials for series in run["series"] if series["name"] == "reported"} == {
        5,
        20,
    }
    assert trials[1]["exceptions"][0]["message"] == "planted"

    def exported(executor):
        export(find_notebook(book.folder, environ={}), str(book.folder / "sets" / executor[:3]), executor=executor)
        folder = book.folder / "sets" / executor[:3]
        return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.parquet")}

    assert exported("ray://auto") == exported("threads") != {}
