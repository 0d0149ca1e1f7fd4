"""Values that are still on a device are added in order, one step later, and nobody waits for them."""

import pytest

from labbook.probe.start import Probe
from labbook.probe.torch.scalars import DeviceReader, Scalars
from labbook.probe.training.device_values import Step
from labbook.probe.training.loop_follower import Training

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


class PendingValues:
    """Values that are ready once `here` is set."""

    bad_inputs = False

    def __init__(self, read):
        self.read = lambda: read
        self.here = False

    def is_ready(self):
        return self.here


@pytest.fixture
def training(tmp_path):
    return Training(Recorded(tmp_path), "torch", lambda optimizer, closure: {"type": "SGD"})


def losses(training):
    return [(event["step"], event.get("loss")) for event in training.probe.events if event["k"] == "step"]


def send(training, recorder, *values):
    for pending in values:
        training.step(recorder, (), [0.1], None, 1, None, pending)


def test_steps_are_added_in_order_when_their_values_arrive(training):
    optimizer = Optimizer()
    recorder = training.recorder(optimizer)
    values = [PendingValues(([float(value)], 1.0, None)) for value in range(4)]
    send(training, recorder, *values[:2])
    values[1].here = True
    send(training, recorder, values[2])
    assert losses(training) == [] and training.probe.step == 3
    values[0].here = values[2].here = True
    send(training, recorder, values[3])
    assert losses(training) == [(1, 0.0), (2, 1.0), (3, 2.0)]
    values[3].here = True
    training.finish()
    assert losses(training)[-1] == (4, 3.0)


def test_a_step_that_the_scaler_skipped_is_no_step(training):
    optimizer = Optimizer()
    recorder = training.recorder(optimizer)
    values = [PendingValues(([1.0], 1.0, None)), PendingValues(None), PendingValues(([3.0], 1.0, None))]
    for pending in values:
        pending.here = True
    send(training, recorder, *values)
    steps = [event for event in training.probe.events if event["k"] == "step"]
    assert [(event["step"], event["loss"], event.get("skipped")) for event in steps] == [(1, 1.0, None), (2, 3.0, 1)]


def test_an_unresponsive_device_loses_values_but_delays_no_step(training, monkeypatch):
    import labbook.probe.training.loop_follower as module

    monkeypatch.setattr(module, "_LAST_VALUES_S", 0.0)
    optimizer = Optimizer()
    recorder = training.recorder(optimizer)
    send(training, recorder, *[PendingValues(([1.0], 1.0, None)) for _ in range(70)])
    assert len(recorder.waiting) <= 65
    training.finish()
    assert losses(training) == [(step, None) for step in range(1, 71)]
    seen = [event["what"] for event in training.probe.events if event["k"] == "unobserved"]
    assert seen == ["loss and gradient norm of some steps"]


class Accelerator:
    """The part of `torch.cuda` that a device reader uses, on a device whose events end on request."""

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
def device_reader():
    import torch

    return DeviceReader(torch, Accelerator(), torch.device("cpu"))


def test_pending_values_are_read_once_its_event_has_ended(device_reader):
    import torch

    pending = device_reader.post(
        [torch.tensor(1.5), torch.tensor(2, dtype=torch.int64), torch.tensor(0.25, dtype=torch.bfloat16)]
    )
    assert not pending.is_ready()
    for event in device_reader._events:
        event.done = True
    assert pending.is_ready()
    assert pending.values() == [1.5, 2.0, 0.25]


def test_nothing_is_posted_into_a_full_device_reader_or_a_captured_graph(device_reader):
    import torch

    values = [device_reader.post([torch.tensor(float(value))]) for value in range(64)]
    assert device_reader.post([torch.tensor(1.0)]) is None
    for event in device_reader._events:
        event.done = True
    assert [pending.values() for pending in values] == [[float(value)] for value in range(64)]
    assert device_reader.post([torch.tensor(1.0)]) is not None
    device_reader._accelerator.capturing = True
    assert device_reader.post([torch.tensor(1.0)]) is None


def test_no_event_is_asked_while_a_graph_is_captured(device_reader):
    """CUDA makes a capture fail when any event is asked meanwhile, also one that was recorded before."""
    import torch

    pending = device_reader.post([torch.tensor(1.0)])
    for event in device_reader._events:
        event.done = True
    device_reader._accelerator.capturing = True
    assert not pending.is_ready()
    device_reader._accelerator.capturing = False
    assert pending.is_ready() and pending.values() == [1.0]


def test_a_user_default_device_does_not_redirect_the_device_reader(device_reader):
    import torch

    with torch.device("meta"):
        pending = device_reader.post([torch.ones((), device="cpu")])
    assert pending.values() == [1.0]


class OnDevice(Scalars):
    """Values that take every tensor for one on a device."""

    def __init__(self, torch, device_reader):
        super().__init__(torch)
        self._box = device_reader

    def read_if_on_host(self, tensor):
        return None

    def post(self, tensors):
        return self._box.post(tensors)


def test_a_step_under_a_scaler_is_put_right_when_it_arrives(device_reader):
    import torch

    step = Step([torch.tensor(2048.0), 1024.0], torch.tensor(512.0), extra={"local": True})
    step.record_scaling(torch.tensor(1024.0), torch.tensor(1024.0), torch.tensor(0.0), True)
    assert step.send(OnDevice(torch, device_reader))
    assert not step.is_ready()
    for event in device_reader._events:
        event.done = True
    assert step.read() == ([2.0, 1.0], 0.5, {"local": True, "scale": 1024.0})
    skipped = Step([torch.tensor(2048.0)], torch.tensor(float("nan")))
    skipped.record_scaling(torch.tensor(1024.0), None, torch.tensor(1.0), True)
    assert skipped.send(OnDevice(torch, device_reader))
    assert skipped.read() is None
