"""The loss of a step is the sum of the losses whose gradients it was made with, in both frameworks."""

import pytest
from pytest import approx

SUMMED = {
    "one": [None],
    "accumulated": [4],
    "accumulated_into_zeros": [4],
    "cleared_for_each_part": [1],
    "cleared_before_the_last_part": [1],
    "stepped_after_many": [1],
    "gradients_by_task": [1],
    "several_losses_of_one_model": [2],
    "summed_before": [None],
    "attacked_and_cleared": [1],
    "attacked_and_zeroed": [1],
    "attacked_and_cleared_by_the_model": [1],
    "cleared_without_a_call": [1],
    "attacked_and_cleared_by_hand": [1],
    "never_cleared": [None],
    "adversaries": [2, None],
    "actor_and_critic": [1, 1],
    "actor_and_critic_cleared_late": [1, 1],
    "closure": [1],
    "closure_of_parts": [2],
    "closure_after_many_short_steps": [None, 1],
    "scaled": [2],
    "attacked_in_many_short_steps": [1],
    "accumulated_in_many_short_steps": [2],
}
"""Loop of `step_losses.py` -> calls of `backward` in one step of each of its optimizers; `None` where there is one."""

NAMES = {
    "one": [["loss"]],
    "several_losses_of_one_model": [["first", "second"]],
    "attacked_and_cleared": [["loss"]],
    "adversaries": [["real", "fake"], ["fooled"]],
    "actor_and_critic": [["first"], ["second"]],
    "scaled": [["loss"]],
}
"""Loop -> what it calls the losses of each of its optimizers."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "framework", [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("torch", "paddle")]
)
def test_the_loss_of_a_step_is_what_was_stepped_on(run, framework):
    outcome = run("step_losses.py", framework, fork=framework, timeout=300)
    assert outcome.of("probe_error") == []
    steps, optimizers, name = {}, [], ""
    for event in outcome.events:
        if event["k"] == "note":
            name = event["text"]
        elif event["k"] == "optimizer":
            optimizers.append((event["index"], name))
            steps[event["index"]] = []
        elif event["k"] == "step":
            steps[event["opt"]].append(event)
    assert {name for _, name in optimizers} == set(SUMMED) == set(outcome.result)
    for loop, summed in SUMMED.items():
        mine = [index for index, name in optimizers if name == loop]
        for index, truth, calls in zip(mine, outcome.result[loop], summed, strict=True):
            seen = {event["step"]: event.get("step_loss", event.get("loss")) for event in steps[index]}
            assert list(seen.values()) == approx([truth[step - 1] for step in seen], rel=1e-5), loop
            assert {event.get("summed") for event in steps[index]} == {calls}, loop
            if loop in NAMES:
                parts = [event["parts"] for event in steps[index] if "parts" in event]
                assert [list(one) for one in parts[:1]] == [NAMES[loop][mine.index(index)]], loop
                assert sum(parts[0].values()) == approx(truth[0], rel=1e-5)
            assert sum(event["n"] for event in steps[index]) == len(truth)
    used = outcome.of("loop")[-1]["accumulated"]
    uses = {
        use: {name for index, name in optimizers if use in used.get(str(index), {})}
        for use in ("discarded", "set_aside")
    }
    late = {"cleared_for_each_part", "cleared_without_a_call", "cleared_before_the_last_part", "stepped_after_many"}
    assert uses == {"discarded": late, "set_aside": {"gradients_by_task"}}
