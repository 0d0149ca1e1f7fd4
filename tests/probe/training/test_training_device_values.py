"""Values that are still on a device are added in order, one step later, and nobody waits for them."""

import pytest

from labbook.probe.start import Probe
from labbook.probe.torch.scalars import Mailbox, Values
from labbook.probe.training.device_values import Step
from labbook.probe.training.training_loop import Training

pytestmark = pytest.mark.torch


class Recorded(Probe):
    """A probe that keeps its events instead of writing them."""

    def __init__(self, folder):
        super().__init__({"dir": str(folder), "run": "20261121-153012-test", "level": "light", "budget": 0.01})
        self.events = []

    def event(self, kind, **fields):
        self.events.append(dict(fields, k=kind))


class Optimizer:
    pass


class Letter:
    """A letter that arrives when it is told to."""

    def __init__(self, read):
        self.read = lambda: read
        self.here = False

    def arrived(self):
        return self.here


@pytest.fixture
def training(tmp_path):
    return Training(Recorded(tmp_path), "torch", lambda optimizer, closure: {"type": "SGD"})


def losses(training):
    return [(event["step"], event.get("loss")) for event in training.probe.events if event["k"] == "step"]


def send(training, meter, *letters):
    for letter in letters:
        training.step(meter, (), [0.1], None, 1, None, letter)


def test_steps_are_added_in_order_when_their_values_arrive(training):
    optimizer = Optimizer()
    meter = training.meter(optimizer)
    letters = [Letter(([float(value)], 1.0, None)) for value in range(4)]
    send(training, meter, *letters[:2])
    letters[1].here = True
    send(training, meter, letters[2])
    assert losses(training) == [] and training.probe.step == 3
    letters[0].here = letters[2].here = True
    send(training, meter, letters[3])
    assert losses(training) == [(1, 0.0), (2, 1.0), (3, 2.0)]
    letters[3].here = True
    training.finish()
    assert losses(training)[-1] == (4, 3.0)


def test_a_step_that_the_scaler_skipped_is_no_step(training):
    optimizer = Optimizer()
    meter = training.meter(optimizer)
    letters = [Letter(([1.0], 1.0, None)), Letter(None), Letter(([3.0], 1.0, None))]
    for letter in letters:
        letter.here = True
    send(training, meter, *letters)
    steps = [event for event in training.probe.events if event["k"] == "step"]
    assert [(event["step"], event["loss"], event.get("skipped")) for event in steps] == [(1, 1.0, None), (2, 3.0, 1)]


def test_a_device_that_never_answers_costs_values_but_no_step(training, monkeypatch):
    import labbook.probe.training.training_loop as module

    monkeypatch.setattr(module, "_LAST_LETTERS_S", 0.0)
    optimizer = Optimizer()
    meter = training.meter(optimizer)
    send(training, meter, *[Letter(([1.0], 1.0, None)) for _ in range(70)])
    assert len(meter.waiting) <= 65
    training.finish()
    assert losses(training) == [(step, None) for step in range(1, 71)]
    told = [event["what"] for event in training.probe.events if event["k"] == "unobserved"]
    assert told == ["loss and gradient norm of some steps"]


class Accelerator:
    """The part of `torch.cuda` that a mailbox uses, on a device whose events end when they are told to."""

    capturing = False

    class Event:
        def __init__(self):
            self.done = False

        def record(self, stream):
            self.done = False

        def query(self):
            return self.done

    def current_stream(self, device):
        return None

    def is_current_stream_capturing(self):
        return self.capturing


@pytest.fixture
def mailbox():
    import torch

    return Mailbox(torch, Accelerator(), torch.device("cpu"))


def test_a_letter_is_read_once_its_event_has_ended(mailbox):
    import torch

    letter = mailbox.post(
        [torch.tensor(1.5), torch.tensor(2, dtype=torch.int64), torch.tensor(0.25, dtype=torch.bfloat16)]
    )
    assert not letter.arrived()
    for event in mailbox._events:
        event.done = True
    assert letter.arrived()
    assert letter.values() == [1.5, 2.0, 0.25]


def test_nothing_is_posted_into_a_full_mailbox_or_a_captured_graph(mailbox):
    import torch

    letters = [mailbox.post([torch.tensor(float(value))]) for value in range(64)]
    assert mailbox.post([torch.tensor(1.0)]) is None
    for event in mailbox._events:
        event.done = True
    assert [letter.values() for letter in letters] == [[float(value)] for value in range(64)]
    assert mailbox.post([torch.tensor(1.0)]) is not None
    mailbox._accelerator.capturing = True
    assert mailbox.post([torch.tensor(1.0)]) is None


def test_a_user_default_device_does_not_redirect_the_mailbox(mailbox):
    import torch

    with torch.device("meta"):
        letter = mailbox.post([torch.ones((), device="cpu")])
    assert letter.values() == [1.0]


class OnDevice(Values):
    """Values that take every tensor for one on a device."""

    def __init__(self, torch, mailbox):
        super().__init__(torch)
        self._box = mailbox

    def at_once(self, tensor):
        return None

    def post(self, tensors):
        return self._box.post(tensors)


def test_a_step_under_a_scaler_is_put_right_when_it_arrives(mailbox):
    import torch

    step = Step([torch.tensor(2048.0), 1024.0], torch.tensor(512.0), extra={"local": True})
    step.under(torch.tensor(1024.0), torch.tensor(1024.0), torch.tensor(0.0), True)
    assert step.send(OnDevice(torch, mailbox))
    assert not step.arrived()
    for event in mailbox._events:
        event.done = True
    assert step.read() == ([2.0, 1.0], 0.5, {"local": True, "scale": 1024.0})
    skipped = Step([torch.tensor(2048.0)], torch.tensor(float("nan")))
    skipped.under(torch.tensor(1024.0), None, torch.tensor(1.0), True)
    assert skipped.send(OnDevice(torch, mailbox))
    assert skipped.read() is None
