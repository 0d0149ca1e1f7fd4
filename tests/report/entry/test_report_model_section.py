"""The section of the model says what was seen of it."""

from labbook.model.run import Framework, Run
from labbook.report.entry.model_section import model_section
from labbook.report.entry.section_limits import Limits


def rows_of(**state):
    run = Run(
        "i", "finished", (), "", 0.0, frameworks=(Framework("paddle", "3.3.1", state={"device": ["cpu"], **state}),)
    )
    return {row["what"] for row in model_section(run, Limits())["rows"]}


def test_parameters_are_counted_only_where_the_optimizer_holds_some():
    assert rows_of(parameters=387, trainable=387) == {"parameters", "device"}
    assert rows_of(parameters=0, trainable=0) == {"device"}
