"""Two ranks: nothing hangs, nothing is communicated, and the parts of a sharded gradient combine to the whole."""

import pytest
from pytest import approx

pytestmark = [pytest.mark.torch, pytest.mark.slow]

TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0", "--standalone")


def ranks(outcome):
    """The step events of each rank, by rank."""
    return {
        int(process[0]["env"]["RANK"]): [event for event in process if event["k"] == "step"]
        for process in outcome.processes
        if any(event["k"] == "step" for event in process)
    }


@pytest.mark.long
def test_the_parts_of_a_sharded_gradient_combine_to_the_whole(run, healthy):
    outcome = healthy(run("sharded_torch.py", "fsdp2", launcher=TORCHRUN, timeout=90))
    zero, one = (ranks(outcome)[rank] for rank in (0, 1))
    assert all(event["local"] for event in zero + one)
    whole = [(a["grad_norm"] ** 2 + b["grad_norm"] ** 2) ** 0.5 for a, b in zip(zero, one, strict=True)]
    assert whole == approx(outcome.result["norms"], rel=1e-4)
    assert [event["loss"] for event in zero] == approx(outcome.result["losses"])


@pytest.mark.long
def test_clipping_a_sharded_model_tells_the_whole_norm(run, healthy):
    outcome = healthy(run("sharded_torch.py", "fsdp2", "clip", launcher=TORCHRUN, timeout=90))
    for steps in ranks(outcome).values():
        assert [event["grad_norm"] for event in steps] == approx(outcome.result["norms"], rel=1e-4)
        assert not any(event.get("local") for event in steps)


@pytest.mark.long
def test_a_replicated_gradient_is_whole_on_every_rank_and_the_launcher_claims_nothing(run, healthy):
    outcome = healthy(run("sharded_torch.py", "ddp", launcher=TORCHRUN, timeout=90))
    for steps in ranks(outcome).values():
        assert [event["grad_norm"] for event in steps] == approx(outcome.result["norms"], rel=1e-4)
        assert not any(event.get("local") for event in steps)
    state = outcome.merged()
    assert state["distributed"]["backend"] == "gloo" and state["distributed"]["world_size"] == 2
    assert state["model"] == "DistributedDataParallel(Sequential)"
    assert [event["what"] for event in outcome.of("unobserved") if "training" in event["what"]] == []
