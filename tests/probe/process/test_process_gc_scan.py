"""The sweep finds objects by class and leaves no mark on other threads."""

import gc
import threading

import pytest

from labbook.probe.process import gc_scan


class Layer:
    pass


class Linear(Layer):
    pass


class Proxy:
    @property
    def __class__(self):
        raise AssertionError("a proxy was woken")


def test_instances_of_a_class_and_its_subclasses_are_found():
    held = [Layer(), Linear(), Proxy(), Linear()]
    assert {id(thing) for thing in gc_scan.live_instances(Layer)} == {id(held[0]), id(held[1]), id(held[3])}


@pytest.mark.long
def test_a_tuple_that_another_thread_is_building_is_let_go():
    """`tuple(generator)` fails with `SystemError` when somebody else holds the tuple at the end."""
    failed, done = [], threading.Event()

    def build():
        try:
            while not done.is_set():
                tuple(number for number in range(1000))
        except SystemError as error:
            failed.append(error)

    threads = [threading.Thread(target=build) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(60):
        gc_scan.live_instances(Layer)
    done.set()
    for thread in threads:
        thread.join()
    assert failed == []


def test_the_state_of_the_collector_is_restored():
    assert gc.isenabled()
    gc_scan.live_instances(Layer)
    assert gc.isenabled()
    gc.disable()
    try:
        gc_scan.live_instances(Layer)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_nothing_is_swept_again_after_a_slow_sweep(monkeypatch):
    monkeypatch.setitem(gc_scan._state, "slow", False)
    monkeypatch.setattr(gc_scan, "SLOW_S", 0.0)
    held = Layer()
    assert gc_scan.live_instances(Layer) == [held]
    assert gc_scan.live_instances(Layer) == [] and not gc_scan.can_scan()
