"""Each option of a run is under what gave it."""

import pytest

from labbook.record.run_from_journal.option_events import read_options
from labbook.store.journal import ProcessEvents

CONFIG = {"window": 24, "lr": 0.003, "horizon": 1}


@pytest.mark.parametrize(
    ("parsed", "found"),
    [
        ({"horizon": 1}, [{"horizon": 1}, {"window": 24, "lr": 0.003}]),  # c = Config(horizon=args.horizon)
        ({"horizon": 1, "lr": None, "window": 24}, [{"horizon": 1, "lr": 0.003, "window": 24}]),  # args.lr or 0.003
    ],
)
def test_a_field_of_an_object_is_no_option_of_the_parser(parsed, found):
    sources = (("argparse", "train.py", parsed), ("dict", "c", CONFIG))
    events = [{"k": "arguments", "source": source, "name": name, "values": v} for source, name, v in sources]
    assert [one.values for one in read_options([ProcessEvents("0.jsonl", tuple(events))])] == found
