"""The settings of each of several trainings of a program are its own, in its entry and in the table of trainings."""

from __future__ import annotations

from dataclasses import replace

from labbook.model.run import Arguments, Run
from labbook.record.run_from_journal.successive_trainings import successive_trainings
from labbook.record.trial_entries import _shared_options
from labbook.report.entry.configuration_section import configuration_section
from labbook.report.entry.entry_front_matter import _params
from labbook.report.entry.section_limits import Limits
from labbook.store.journal import ProcessEvents
from labbook.store.text.sentences import Sentences

RUN = Run("i", "finished", ("python", "search.py"), "/w", 0.0, ended=99.0, script="search.py")


def rows_of(rates, settings):
    """The rows of three trainings, one after another, each with a dictionary of settings before its optimizer."""
    made = [{"k": "hello", "t": 0.0}]
    for at, (rate, values) in enumerate(zip(rates, settings, strict=True)):
        optimizer = {"index": at, "type": "SGD", "options": {"lr": rate}, "trains": at, "root": "Net", "tensors": 4}
        made += [
            {"k": "arguments", "t": 10.0 * at + 1, "source": "dict", "name": "cfg", "values": values},
            {"k": "optimizer", "t": 10.0 * at + 2, **optimizer},
            *({"k": "step", "t": 10.0 * at + 3 + step, "opt": at, "step": step, "loss": 1.0} for step in (1, 2)),
        ]
    return [row["params"] for row in successive_trainings(RUN, [ProcessEvents("0.jsonl", tuple(made))])["rows"]]


def test_settings_of_each_training_are_in_the_table_beside_what_its_optimizer_has():
    settings = [
        {"hidden": size, "lr": rate, "layers": 2, "seed": size, "path": f"runs/{size}.pt"}
        for size, rate in ((16, 0.1), (32, 0.01), (64, 0.001))
    ]
    rows = rows_of([0.1, 0.01, 0.001], settings)
    assert rows == [{"lr": 0.1, "hidden": 16}, {"lr": 0.01, "hidden": 32}, {"lr": 0.001, "hidden": 64}]


def test_settings_alone_make_no_trials_of_folds():
    assert rows_of([0.1] * 3, [{"fold": fold, "path": f"{fold}.pt"} for fold in (1, 2, 3)]) == [{}] * 3


def test_a_trial_has_no_settings_of_another_one_and_the_run_those_of_the_best():
    tried = tuple(Arguments("dict", "cfg", {"hidden": size}) for size in (16, 32))
    constants = Arguments("constants", "__main__", {"EPOCHS": 12})
    run = replace(RUN, arguments=(*tried, constants))
    for own in (tried[1:], ()):
        assert _shared_options(run, replace(RUN, arguments=own)) == (constants,)
    rows = [{"params": {"hidden": size}} for size in (16, 32)]
    run = replace(run, captured={"trainings": {"rows": rows, "best": 1}})
    assert _params(run) == {"hidden": 32, "EPOCHS": 12}
    run = replace(run, captured={"trainings": {"rows": rows}})
    assert _params(run) == {"EPOCHS": 12}
    shown = configuration_section(run, Limits(), Sentences("en"))["arguments"]
    assert [one["of_first"] for one in shown] == [True, False]
