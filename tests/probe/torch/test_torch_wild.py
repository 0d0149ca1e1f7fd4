"""Programs that a watcher may stumble over end as they would alone and print the same; what is not seen is said."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

PROGRAM = str(Path(__file__).resolve().parents[2] / "programs" / "health_torch_wild.py")
RUN = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0", "--standalone")
pytestmark = [pytest.mark.forked("torch"), pytest.mark.torch, pytest.mark.slow, pytest.mark.long]
UNSEEN = {
    "forked": "",
    "executed": "",
    "swallows": "",
    "unhooked": "",
    "anomalous": "",
    "watched": "another tool watches every call",
    "threaded": "one thread is followed",
    "trainer": "",
    "ranks": "",
}
"""Program -> what is said of it not to be observed."""


def both(probed, case):
    command = (sys.executable, *(RUN if case == "ranks" else ()), PROGRAM, case)
    bare = probed.plain(*command, OMP_NUM_THREADS="1")
    probed.settings["level"] = "deep"
    return bare, probed(*command, check=None, OMP_NUM_THREADS="1")


@pytest.mark.parametrize("case", UNSEEN)
def test_wild_programs_end_and_print_as_alone(probed, case):
    bare, watched = both(probed, case)
    assert bare.returncode == (7 if case == "executed" else 0), bare.stderr
    assert watched.code == bare.returncode
    assert watched.out == bare.stdout
    assert watched.of("probe_error") == []
    assert watched.of("step") or case == "anomalous"
    if UNSEEN[case]:
        assert any(UNSEEN[case] in event["reason"] for event in watched.of("unobserved"))


def test_a_program_that_breaks_what_the_probe_uses_is_not_hurt_and_told(probed):
    bare, watched = both(probed, "patched")
    assert (watched.code, watched.out) == (bare.returncode, bare.stdout) == (0, bare.stdout)
    assert watched.of("probe_error"), "what failed is reported"
    assert watched.of("step")[-1]["step"] == 6
