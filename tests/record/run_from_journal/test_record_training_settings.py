"""The settings of each of several trainings of a program are its own, in its entry and in the table of trainings."""

from __future__ import annotations

from dataclasses import replace

from labbook.model.run import Arguments, Run
from labbook.record.run_from_journal.option_events import read_options
from labbook.record.run_from_journal.series_events import fold_series
from labbook.record.run_from_journal.successive_trainings import join_logged_series, successive_trainings
from labbook.record.trial_entries import _shared_options
from labbook.report.entry.configuration_section import configuration_section
from labbook.report.entry.entry_front_matter import _params
from labbook.report.entry.section_limits import Limits
from labbook.store.journal import ProcessEvents
from labbook.store.text.sentences import Sentences

RUN = Run("i", "finished", ("python", "search.py"), "/w", 0.0, ended=99.0, script="search.py")


def journal_of(rates, settings, source="dict", logged=None):
    """Trainings one after another, each with settings before its optimizer and values that it logged after its steps.

    Settings that are `None` are those of the training before: no event repeats them.
    """
    made = [{"k": "hello", "t": 0.0}]
    for at, (rate, values) in enumerate(zip(rates, settings, strict=True)):
        optimizer = {"index": at, "type": "SGD", "options": {"lr": rate}, "trains": at, "root": "Net", "tensors": 4}
        made += [
            {"k": "arguments" if values else "", "t": 10.0 * at + 1, "source": source, "name": "cfg", "values": values},
            {"k": "optimizer", "t": 10.0 * at + 2, **optimizer},
            *({"k": "step", "t": 10.0 * at + 3 + step, "opt": at, "step": step, "loss": 1.0} for step in (1, 2)),
            *(
                {"k": "scalars", "t": 10.0 * at + 6 + step / 9, "source": "x", "step": step, "values": {"val/ce": v}}
                for step, v in enumerate(logged[at] if logged else ())
            ),
        ]
    return [ProcessEvents("0.jsonl", tuple(made))]


def rows_of(*trainings):
    return [row["params"] for row in successive_trainings(RUN, journal_of(*trainings))["rows"]]


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


def test_settings_of_a_module_are_those_of_each_training_and_none_of_the_run():
    settings = [{"hidden": 8, "dropout": 0.1}, {"hidden": 32, "dropout": 0.1}, None]
    assert rows_of([0.1, 0.01, 0.001], settings, "lightning") == [
        {"lr": rate, "hidden": hidden} for rate, hidden in ((0.1, 8), (0.01, 32), (0.001, 32))
    ]
    (options,) = read_options(journal_of([0.1, 0.01, 0.001], settings, "lightning"))
    assert options.values == {"dropout": 0.1}


def test_values_that_trainings_log_under_the_same_steps_are_one_after_another_and_the_best_is_judged_by_its_best():
    logged = [[0.9, 0.8, 0.7], [0.6, 0.2, 0.4], [0.5, 0.3]]
    processes = journal_of([0.1, 0.01, 0.001], [None] * 3, logged=logged)
    run = join_logged_series(replace(RUN, series=fold_series(processes)), processes)
    (series,) = (s for s in run.series if s.name == "val/ce")
    assert (
        list(series.values) == [*logged[0], *logged[1], *logged[2]]
        and series.starts == (0, 3, 6)
        and series.axis == "number"
    )
    facts = successive_trainings(run, processes)
    assert facts["metric"] == "val/ce" and facts["best"] == 1 and facts["value"] == 0.2
    assert [(row["first"], row["best"], row["last"]) for row in facts["rows"]] == [
        *((0.9, 0.7, 0.7), (0.6, 0.2, 0.4), (0.5, 0.3, 0.3))
    ]


def test_a_default_that_a_loaded_state_adds_is_no_option_of_a_trial():
    processes = journal_of([0.1] * 2, [None] * 2)
    (process,) = processes
    last = next(event for event in reversed(process.events) if event["k"] == "optimizer")
    last["options"]["differentiable"] = False
    facts = successive_trainings(RUN, processes)
    assert [row["params"] for row in facts["rows"]] == [{}, {}] and facts["second"] == "loss.opt1"
