"""On a real GPU: training is bitwise the same, the host waits no more than alone, and memory stays the program's."""

from __future__ import annotations

from pathlib import Path

import pytest

PROGRAM = str(Path(__file__).resolve().parents[2] / "programs" / "cuda_torch.py")
KINDS = ("plain", "bf16", "fp16", "compile", "graph", "workers", "nan")
DENSE_MOST = 60
"""Steps of 120 at which the probe may look closely, and read."""

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="needs an NVIDIA GPU"),
    pytest.mark.timeout(300),
]


@pytest.mark.parametrize(
    ("kind", "level"), [*((kind, "normal") for kind in KINDS), ("plain", "light"), ("fp16", "deep"), ("graph", "deep")]
)
def test_training_on_a_gpu_is_bitwise_the_same(run, healthy, kind, level):
    alone = run(PROGRAM, kind, probe=False).result
    watched = healthy(run(PROGRAM, kind, settings={"level": level}))
    assert watched.result["digest"] == alone["digest"]
    assert watched.result["peak_bytes"] <= 1.05 * alone["peak_bytes"] + (8 << 20)
    assert len(watched.of("step")) or kind == "graph"
    assert bool(watched.of("flight")) == (kind == "nan" and level != "light")


def test_the_host_waits_for_a_gpu_at_few_steps_only(run, healthy):
    assert run(PROGRAM, "quiet", probe=False).result["waits"] == []
    waits = healthy(run(PROGRAM, "quiet")).result["waits"]
    assert len({step for step, _ in waits}) <= DENSE_MOST, waits


@pytest.mark.parametrize(("kind", "error"), [("memory", "OutOfMemoryError"), ("index", "device-side assert")])
def test_a_crash_on_a_gpu_keeps_its_status_and_text(run, kind, error):
    alone = run(PROGRAM, kind, probe=False, expect=1)
    watched = run(PROGRAM, kind, expect=1)
    assert error in alone.err and error in watched.err
    assert "labbook" not in watched.err.replace(PROGRAM, "")
