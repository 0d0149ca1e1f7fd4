"""Traces of profilers: time by stack, memory, and the files that show them."""

from __future__ import annotations

import json
import random
from xml.etree import ElementTree

import pytest
from order_of_tests import in_one_test

from labbook.report.flame_svg import flame_svg, memory_svg
from labbook.report.profile_trace import ProfileTrace, read_trace, speedscope
from labbook.store.text.templates import words


def call(name, ts, dur, tid=1, cat="cpu_op"):
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur}


def read(*events) -> ProfileTrace:
    return read_trace(json.dumps({"traceEvents": list(events)}))


def test_time_is_that_of_the_function_without_what_it_calls():
    trace = read(
        call("aten::linear", 0, 100), call("aten::addmm", 10, 80), call("aten::linear", 200, 50),
        call("Optimizer.step#Adam.step", 300, 40), call("aten::add_", 310, 10),
        call("gemm_kernel", 20, 500, tid=7, cat="kernel"), call("PyTorch Profiler (0)", 0, 9999, cat="Trace"),
    )  # fmt: skip

    gpu, cpu = trace.threads
    assert (gpu.kind, gpu.own_us, gpu.total_us) == ("gpu", 0, 500)
    linear, step = cpu.below["aten::linear"], cpu.below["Optimizer.step#Adam.step"]
    assert (linear.own_us, linear.total_us, linear.calls) == (70, 150, 2)
    assert cpu.own_us == 150, "between the operators"
    assert step.below["aten::add_"].kind == "optimizer", "what the optimizer calls is part of it"


def test_a_range_that_was_open_ends_where_the_profiler_stopped():
    (thread,) = read(
        call("PyTorch Profiler (0)", 0, 120, cat="Trace"),
        call("Optimizer.step#SGD.step", 100, 900), call("aten::add_", 105, 10), call("aten::copy_", 500, 10),
    ).threads  # fmt: skip

    assert (thread.total_us, thread.below["Optimizer.step#SGD.step"].own_us) == (20, 10)


def test_layers_and_operators_of_paddle_are_one_thread():
    trace = read(
        call("Linear[80.000 us]", 0, 80, "9(Python)", "Forward"), call("matmul dygraph[50.1 us]", 5, 50, "9(C++)"),
        call("ProfileStep#0[1.2 ms]", 0, 1200, "9(Python)", "ProfileStep"),
    )  # fmt: skip

    (thread,) = trace.threads
    assert list(thread.below) == ["Linear"] and list(thread.below["Linear"].below) == ["matmul dygraph"]


@in_one_test("seed", range(5))
def test_no_time_is_lost_or_counted_twice(seed):
    chance, events = random.Random(seed), []

    def calls(begin, end, depth):
        at = begin
        while at + 4 < end and depth < 90:
            stop = chance.uniform(at + 1, end)
            events.append(call(f"f{chance.randrange(30)}", at, stop - at))
            calls(at, stop, depth + 1)
            at = stop + chance.random()

    calls(0.0, 2000.0, 0)
    top, at = 0.0, -1.0
    for event in sorted(events, key=lambda one: (one["ts"], -one["dur"])):
        if event["ts"] >= at:
            top, at = top + event["dur"], event["ts"] + event["dur"]
    (thread,) = read(*chance.sample(events, len(events))).threads
    assert thread.total_us - thread.own_us == pytest.approx(top, rel=1e-6)
    data = json.loads(speedscope(ProfileTrace((thread,), ()), ["Thread 1"], "run"))["profiles"][0]
    assert sum(data["weights"]) == pytest.approx(top, abs=0.1) and len(data["samples"]) == len(data["weights"])


def test_memory_has_a_peak_and_the_operator_that_reached_it():
    def memory(ts, total, **more):
        return {"ph": "i", "name": "[memory]", "ts": ts, "args": {"Total Allocated": total, "Device Type": 0, **more}}

    paddle = {"place": "Place(gpu:1)", "current_allocated": 64}
    trace = read(
        call("aten::mm", 0, 100), call("aten::empty", 40, 20), memory(10, 5), memory(50, 900), memory(300, -20),
        memory(60, 7, **{"Device Type": 1, "Device Id": 0}), {"ph": "i", "name": "[memory]", "ts": 5, "args": paddle},
    )  # fmt: skip

    cpu, first, second = trace.memory
    assert (cpu.device, cpu.peak_bytes, cpu.peak_in) == ("CPU", 900, "aten::empty")
    assert (first.device, second.device, second.allocated) == ("GPU 0", "GPU 1", (64,))
    for language in ("en", "zh"):
        labels = words(language)["profile"]
        ElementTree.fromstring(memory_svg(trace.memory, labels))
        picture = ElementTree.fromstring(flame_svg(trace, ["Thread 1"], labels, 2))
        assert any("aten::empty" in (title.text or "") for title in picture.iter("{http://www.w3.org/2000/svg}title"))


@in_one_test("text", ["", "[1]", "{}", '{"traceEvents": 3}', '{"traceEvents": [{"ph": "X"}, 1, null]}'])
def test_a_damaged_trace_is_refused_or_empty(text):
    try:
        trace = read_trace(text)
    except ValueError:
        return
    assert trace == ProfileTrace((), ())
