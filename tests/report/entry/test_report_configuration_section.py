"""The section of the configuration shows what the program was given once."""

from labbook.model.run import Arguments, Run
from labbook.report.entry.configuration_section import configuration_section
from labbook.report.entry.section_limits import Limits
from labbook.store.text.sentences import Sentences


def test_options_that_an_earlier_source_has_all_are_shown_once():
    parser = Arguments("argparse", "train.py", {"lr": 0.1, "layers": [1, 2], "data": "x"})
    trainer = Arguments("transformers", "TrainingArguments", {"lr": 0.1, "layers": [1, 2]})
    other = Arguments("dict", "cfg", {"lr": 0.2})
    run = Run("i", "finished", (), "", 0.0, arguments=(parser, trainer, other))
    shown = configuration_section(run, Limits(), Sentences("en"))["arguments"]
    assert [one["name"] for one in shown] == ["train.py", "cfg"]
