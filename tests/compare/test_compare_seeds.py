"""The seed of a program's option is one difference, not one for each generator that it seeds."""

import pytest

from labbook.compare.run_changes import compare_runs
from labbook.model.run import Arguments, Framework, Run
from labbook.model.run_json import run_to_json


@pytest.mark.parametrize(("option", "shown"), [("seed", []), ("random_seed", []), ("epochs", ["torch seeds.torch"])])
def test_the_seed_of_an_option_is_no_second_difference(option, shown):
    early, later = (
        run_to_json(
            Run(
                "k3f9",
                "finished",
                ("python", "train.py"),
                "/w",
                1.0,
                arguments=(Arguments("argparse", "", {option: seed}),),
                frameworks=(Framework("torch", "2", state={"seeds": {"torch": seed}}),),
            )
        )
        for seed in (1, 2)
    )
    assert [change.what for change in compare_runs(early, later)][1:] == shown
