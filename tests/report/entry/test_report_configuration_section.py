"""The section of the configuration shows what the program was given once."""

from dataclasses import replace

from labbook.model.run import Arguments, Run
from labbook.report.entry.configuration_section import configuration_section
from labbook.report.entry.entry_front_matter import entry_meta
from labbook.report.entry.section_limits import Limits
from labbook.store.text.sentences import Sentences


def test_options_that_an_earlier_source_has_all_are_shown_once():
    parser = Arguments("argparse", "train.py", {"lr": 0.1, "layers": [1, 2], "data": "x"})
    trainer = Arguments("transformers", "TrainingArguments", {"lr": 0.1, "layers": [1, 2]})
    other = Arguments("dict", "cfg", {"lr": 0.2})
    run = Run("i", "finished", (), "", 0.0, arguments=(parser, trainer, other))
    shown = configuration_section(run, Limits(), Sentences("en"))["arguments"]
    rows = {one["name"]: [row["name"] for row in one["rows"]] for one in shown}
    assert rows == {"train.py": ["data"], "TrainingArguments": ["lr", "layers"], "cfg": ["lr"]}
    again = replace(run, arguments=(replace(parser, source="click"), replace(trainer, source="dict"), other))
    shown = configuration_section(again, Limits(), Sentences("en"))["arguments"]
    assert [one["name"] for one in shown] == ["train.py", "cfg"]


def test_the_options_of_the_program_come_before_those_of_its_trainer():
    library = {f"option_{n}": n for n in range(90)}
    parser = Arguments("argparse", "train.py", {**library, "noise": 0.04}, unchanged=(*library, "noise"))
    trainer = Arguments("transformers", "TrainingArguments", library, unchanged=tuple(library))
    run = Run("i", "finished", (), "", 0.0, arguments=(parser, trainer))
    assert entry_meta(run, "t", {})["params"] == {"noise": 0.04}


def test_options_of_several_trainings_are_those_of_the_first():
    given = (Arguments("dict", "p", {"lr": 0.1, "units": 8}), Arguments("constants", "t.py", {"alpha": 3}))
    captured = {"trainings": {"rows": [{"params": {"lr": 0.1}}, {"params": {"lr": 0.2}}]}}
    run = Run("i", "finished", (), "", 0.0, arguments=given, captured=captured)
    shown = configuration_section(run, Limits(), Sentences("en"))["arguments"]
    assert [one["of_first"] for one in shown] == [True, False]


def test_of_many_options_those_without_a_value_are_counted():
    for count, rows in ((3, 6), (20, 20)):
        values = {f"a{n}": n for n in range(count)} | {f"b{n}": None for n in range(count)}
        run = Run("i", "finished", (), "", 0.0, arguments=(Arguments("dict", "cfg", values),))
        (shown,) = configuration_section(run, Limits(), Sentences("en"))["arguments"]
        assert (len(shown["rows"]), shown["more"]) == (rows, 2 * count - rows)
