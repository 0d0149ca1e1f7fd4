"""Events of probes become one run."""

from __future__ import annotations

import math

import pytest

from labbook.model.run import Console
from labbook.record.run_from_journal.journal_reader import _raising_source, build_run, run_status
from labbook.store.event_reader import read_event
from labbook.store.journal import ProcessEvents

START = {"id": "20261121-153012-k3f9", "argv": ["python", "train.py"], "cwd": "~/p", "started": 100.0, "child_pid": 7}


def process(*events, pid=7, **hello):
    first = {"k": "hello", "t": 100.0, "pid": pid, "ppid": 1, "argv": ["python", "train.py"], **hello}
    return ProcessEvents(f"h-{pid}-1.jsonl", tuple(map(read_event, (first, *events))))


def step(number, loss, **more):
    return {"k": "step", "framework": "torch", "opt": 0, "step": number, "n": 1, "loss": loss, **more}


def run_of(*processes, end=None):
    return build_run(START, {"code": 0, "signal": "", "ended": 110.0} if end is None else end, processes, Console())


def series(run, name, rank=None):
    return next(s for s in run.series if s.name == name and s.rank == rank)


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ({"code": 0, "signal": ""}, "finished"),
        ({"code": 1, "signal": ""}, "failed"),
        ({"code": None, "signal": "SIGSEGV"}, "failed"),
        ({"code": None, "signal": "SIGINT"}, "interrupted"),
        ({"code": 130, "signal": ""}, "interrupted"),
        ({"code": None, "signal": "SIGTERM"}, "interrupted"),
        ({"code": None, "signal": "SIGKILL"}, "killed"),
        ({"code": 137, "signal": ""}, "killed"),
    ],
)
def test_status_from_how_the_command_ended(end, status):
    assert run_status(end, [], 7) == status


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize(
    ("stopped", "raised", "status"),
    [
        (98.0, [], "interrupted"),
        (98.0, ["KeyboardInterrupt"], "interrupted"),  # printed by the program, which exits with 1
        (98.0, ["ValueError"], "failed"),
        (10.0, [], "failed"),  # it went on, and failed later
        (0.0, [], "failed"),
    ],
)
def test_a_program_that_ends_itself_after_ctrl_c_was_interrupted(code, stopped, raised, status):
    """One that handles the signal, as Lightning does, saves its state and exits with 0: it did not finish."""
    events = [{"k": "exception", "type": name} for name in raised]
    end = {"code": code, "signal": "", "ended": 100.0, "stopped": stopped}
    made = process(*events)
    expected = "finished" if status == "failed" and code == 0 else status
    assert run_status(end, [made], made.hello["pid"]) == expected


def test_without_an_end_a_command_without_goodbye_event_was_killed():
    assert run_status({}, [process()], 7) == "killed"


def test_without_an_end_an_orderly_or_unprobed_command_is_lost():
    assert run_status({}, [process({"k": "bye"})], 7) == "lost"
    assert run_status({}, [], 7) == "lost"


def test_steps_become_series():
    run = run_of(process(step(1, 2.3, lr=[0.1], grad_norm=1.5), step(2, 2.0, lr=[0.1], grad_norm=1.2, dt=0.01)))

    assert series(run, "loss").values == (2.3, 2.0)
    assert series(run, "grad_norm").last == 1.2
    assert series(run, "lr").steps == (1, 2)
    assert series(run, "step_time_s").steps == (2,)


def test_a_window_keeps_its_extremes_and_counts():
    window = {**step(100, 1.0), "n": 50, "agg": {"loss": [0.5, 9.0, 2.0, 48, 2]}}

    loss = series(run_of(process(window)), "loss")

    assert (loss.low, loss.high, loss.count, loss.nonfinite) == ((0.5,), (9.0,), 50, 2)


def test_the_loss_of_a_step_is_the_sum_of_those_that_were_stepped_on():
    accumulated = {"opt": 0, "step_loss": 3.0, "summed": 2}
    window = {
        **step(40, [1.0, 2.0]),
        **accumulated,
        "n": 9,
        "agg": {"loss": [0, 2, 1, 18, 0], "step_loss": [1, 4, 3, 9, 0]},
    }
    cleared = {**step(1, [7.0, 5.0]), "opt": 1, "step_loss": 5.0, "summed": 1}
    optimizers = [{"k": "optimizer", "framework": "torch", "index": index, "type": "SGD"} for index in (0, 1)]
    framework = {"k": "framework", "name": "torch"}

    steps = [{**step(at, [1.0, 2.0]), **accumulated} for at in range(1, 4)]
    rest = [step(4, 1.5), {**step(5, [1.0, 2.0, 3.0]), "step_loss": 6.0, "summed": 3}, step(6, float("nan"))]
    run = run_of(process(framework, *optimizers, *steps, *rest, window, cleared))

    loss = series(run, "loss")
    assert loss.steps == (1, 2, 3, 6, 40), "a loss of more or fewer passes than usual does not compare with the others"
    assert loss.values[-1] == 3.0 and (loss.low[-1], loss.high[-1], loss.count) == (1.0, 4.0, 13)
    assert series(run, "loss.opt1").values == (5.0,)
    assert [one.get("summed") for one in run.frameworks[0].optimizers] == [2, None]


def test_losses_of_a_step_are_series_with_their_names_in_the_program():
    parts = [{"real": 1.0, "fake": 2.0}, {"real": 0.5, "fake": 1.0}, {"loss": 0.5, "aux": 0.1}]
    steps = [step(at, list(p.values()), step_loss=sum(p.values()), parts=p) for at, p in enumerate(parts, 1)]
    other = {**step(1, 7.0, parts={"fooled": 7.0}), "opt": 1}
    optimizers = [{"k": "optimizer", "framework": "torch", "index": index, "type": "SGD"} for index in (0, 1)]

    run = run_of(process({"k": "framework", "name": "torch"}, *optimizers, *steps, other))

    assert series(run, "real").values == (1.0, 0.5) and series(run, "aux").values == (0.1,)
    assert series(run, "loss").values == (3.0, 1.5, 0.6), "a part that is called like the whole is left out"
    assert not [s for s in run.series if s.name.startswith("fooled")]
    assert run.frameworks[0].optimizers[1]["losses"] == ["fooled"]


def test_numbers_that_are_not_finite_survive_json():
    loss = series(run_of(process(step(1, "nan"), step(2, "-inf"))), "loss")

    assert math.isnan(loss.values[0]) and loss.values[1] == -math.inf
    assert loss.nonfinite == 2


def test_a_second_optimizer_has_series_of_its_own():
    run = run_of(process(step(1, 1.0), {**step(1, 5.0), "opt": 1}))

    assert series(run, "loss").values == (1.0,) and series(run, "loss.opt1").values == (5.0,)


def test_rates_of_further_groups_are_recorded_only_if_they_differ():
    same = run_of(process(step(1, 1.0, lr=[0.1, 0.1])))
    other = run_of(process(step(1, 1.0, lr=[0.1, 0.01])))

    assert [s.name for s in same.series] == ["loss", "lr"]
    assert series(other, "lr.group1").values == (0.01,)


def test_ranks_have_separate_series():
    environment = {"RANK": "1", "WORLD_SIZE": "2"}
    run = run_of(
        process(step(1, 1.0), env={"RANK": "0", "WORLD_SIZE": "2"}), process(step(1, 3.0), pid=8, env=environment)
    )

    assert series(run, "loss", 0).values == (1.0,) and series(run, "loss", 1).values == (3.0,)


def test_one_process_of_a_world_of_one_has_no_rank():
    assert run_of(process(step(1, 1.0), env={"RANK": "0", "WORLD_SIZE": "1"})).series[0].rank is None


def test_the_second_training_of_a_script_is_named_by_its_program():
    first = process(step(1, 1.0))
    second = process(step(1, 2.0), pid=8, argv=["/usr/bin/python", "src/finetune.py"])

    assert [s.name for s in run_of(first, second).series] == ["loss", "finetune.py/loss"]


def test_logged_scalars_without_a_step_are_counted():
    scalars = [{"k": "scalars", "source": "wandb", "step": None, "values": {"acc": v}} for v in (0.1, 0.2, 0.3)]

    accuracy = series(run_of(process(*scalars)), "acc")

    assert accuracy.steps == (1, 2, 3) and accuracy.source == "wandb"


def test_counters_and_placeholders_of_loggers_are_no_metrics():
    values = {"epoch": 1, "trainer/global_step": 9, "hp_metric": -1, "val_acc": 0.5}
    scalars = [{"k": "scalars", "source": source, "step": 9, "values": values} for source in ("tensorboard", "labbook")]
    names = {(s.name, s.source) for s in run_of(process(*scalars)).series}
    assert {name for name, source in names if source == "tensorboard"} == {"val_acc"}
    assert {name for name, source in names if source == "labbook"} == set(values), "what people log by name stays"


def test_steps_logged_out_of_order_are_sorted_and_the_later_value_wins():
    scalars = [
        {"k": "scalars", "source": "labbook", "step": s, "values": {"x": v}} for s, v in ((5, 1), (2, 2), (5, 3))
    ]

    x = series(run_of(process(*scalars)), "x")

    assert (x.steps, x.values, x.count) == ((2, 5), (2.0, 3.0), 3)


def test_facts_of_a_framework_merge():
    run = run_of(
        process(
            {"k": "framework", "name": "torch", "version": "2.13.0", "build": {"cuda": None}},
            {"k": "state", "framework": "torch", "seeds": {"torch": 1}, "mode": "dynamic"},
            {"k": "state", "framework": "torch", "seeds": {"numpy": 2}, "mode": "compiled"},
            {"k": "optimizer", "framework": "torch", "index": 0, "type": "Adam"},
        )
    )

    (framework,) = run.frameworks
    assert framework.state["seeds"] == {"torch": 1, "numpy": 2} and run.mode == "compiled"
    assert framework.optimizers[0]["type"] == "Adam"


@pytest.mark.parametrize(
    ("source", "function", "shown"),
    [
        ("    def forward(self, x):", "Net.forward", ""),
        ("def f(x=g()):", "<module>", "def f(x=g()):"),
        ("y = f(x)", "f", "y = f(x)"),
    ],
)
def test_the_definition_of_a_compiled_function_is_not_its_failing_line(source, function, shown):
    """Paddle's `to_static` gives the line of `def` for every line of the function."""
    assert _raising_source(source, function) == shown


def test_an_exception_keeps_frames_and_rank():
    error = {
        "k": "exception",
        "t": 105.0,
        "where": "main",
        "type": "ValueError",
        "module": "builtins",
        "message": "bad",
        "frames": [{"file": "train.py", "line": 3, "function": "main", "source": "f()", "user": True}],
        "chain": [{"type": "KeyError", "message": "'x'", "relation": "cause"}],
        "step": 12,
        "exit": True,
    }

    (found,) = run_of(process(error, env={"RANK": "1", "WORLD_SIZE": "2"}), end={"code": 1, "ended": 106.0}).exceptions

    assert (found.type, found.rank, found.step, found.ended_process) == ("ValueError", 1, 12, True)
    assert found.frames[0].line == 3 and found.chain == (("KeyError", "'x'", "cause"),)


def test_invalid_events_are_ignored():
    odd = [
        {"k": "step", "step": None, "loss": "x", "lr": "fast"},
        {"k": "scalars", "values": None},
        {"k": "arguments", "values": 3},
        {"k": "exception"},
        {"k": "framework"},
        {"k": "unknown kind"},
    ]

    run = run_of(process(*odd))

    assert run.status == "finished"


def test_no_hello_means_the_probe_did_not_start():
    assert run_of().probe.status == "absent"


def test_incomplete_lines_are_counted_in_the_probe_report():
    torn = ProcessEvents("h-7-1.jsonl", process().events, broken_lines=1)

    report = run_of(torn).probe

    assert report.status == "partial" and report.errors[0][2] == 1


def test_setup_and_sustained_overhead_are_reported_separately():
    later = {"step": 32, "overhead_s": 0.5, "elapsed_s": 50.0}
    bye = {"k": "bye", "steps": 900, "overhead_s": 0.8, "elapsed_s": 60.0, "sustained": later}
    seen = run_of(process(step(900, 1.0), bye)).probe
    assert (seen.sustained_s, round(seen.setup_s, 6), seen.sustained_fraction) == (0.5, 0.3, 0.01)
    assert run_of(process(step(9, 1.0), dict(bye, sustained=None))).probe.setup_s is None


def test_a_variable_that_holds_the_parsed_options_is_no_second_set_of_options():
    parsed = {"lr": 0.1, "epochs": 3}
    events = [
        {"k": "arguments", "source": "dict", "name": "args", "values": parsed},
        {"k": "arguments", "source": "argparse", "name": "train.py", "values": parsed},
        {"k": "arguments", "source": "dict", "name": "config", "values": {"width": 8, "optimizer": {"lr": 0.1}}},
        {"k": "arguments", "source": "dict", "name": "optimizer", "values": {"lr": 0.1}},
    ]
    processes = [ProcessEvents("p", tuple(map(read_event, events)))]
    run = build_run({"id": "r"}, {"code": 0}, processes, Console())
    assert [(one.source, one.name) for one in run.arguments] == [("argparse", "train.py"), ("dict", "config")]


def test_options_that_the_program_changed_have_the_values_that_it_trained_with():
    parsed = {"lr": None, "b": 8}
    events = [
        {"k": "arguments", "source": "argparse", "name": "a.py", "values": parsed, "unchanged": ["lr", "b"]},
        {"k": "arguments", "source": "dict", "name": "args", "values": {"lr": 0.025, "b": 8, "device": "cpu"}},
    ]
    run = build_run({"id": "r"}, {"code": 0}, [ProcessEvents("p", tuple(map(read_event, events)))], Console())
    options, own = run.arguments
    assert (options.source, dict(options.values), options.unchanged) == ("argparse", {"lr": 0.025, "b": 8}, ("b",))
    assert (own.name, dict(own.values)) == ("args", {"device": "cpu"})


@pytest.mark.parametrize("variables", [[], [{"config": "c.yaml", "lr": 0.1, "b": 8}]])
def test_a_first_parser_that_only_finds_the_file_is_no_second_set_of_options(variables):
    events = [
        {"k": "arguments", "source": "argparse", "name": "a.py", "values": {"config": "c.yaml"}},
        {"k": "arguments", "source": "argparse", "name": "a.py", "values": {"config": "c.yaml", "lr": 0.1, "b": 8}},
        *({"k": "arguments", "source": "dict", "name": "args", "values": values} for values in variables),
        {"k": "arguments", "source": "argparse", "name": "other.py", "values": {"config": "d.yaml"}},
    ]
    run = build_run({"id": "r"}, {"code": 0}, [ProcessEvents("p", tuple(map(read_event, events)))], Console())
    assert [dict(one.values) for one in run.arguments] == [
        {"config": "c.yaml", "lr": 0.1, "b": 8}, {"config": "d.yaml"}
    ]  # fmt: skip


def test_the_same_parser_that_parses_again_with_the_defaults_of_a_file_has_the_values_in_use():
    first, used = ({"config": "c.yaml", "lr": lr, "b": b, "epochs": 3} for lr, b in ((0.001, 32), (0.1, 80)))
    events = [
        {"k": "arguments", "source": "argparse", "name": "a.py", "values": first},
        {"k": "arguments", "source": "argparse", "name": "a.py", "values": used},
        {"k": "arguments", "source": "dict", "name": "first", "values": first},
        {"k": "arguments", "source": "dict", "name": "args", "values": used},
    ]
    run = build_run({"id": "r"}, {"code": 0}, [ProcessEvents("p", tuple(map(read_event, events)))], Console())
    assert [dict(one.values) for one in run.arguments] == [used]


def test_options_of_a_sub_command_and_of_the_object_made_of_them_are_told_once():
    fit = {"seed": 3, "model": {"width": 32}}
    events = [
        {"k": "arguments", "source": "jsonargparse", "name": "main.py", "values": fit},
        {"k": "arguments", "source": "jsonargparse", "name": "main.py", "values": {"subcommand": "fit", "fit": fit}},
        {"k": "arguments", "source": "lightning", "name": "Net", "values": {"width": 32}},
        {"k": "arguments", "source": "lightning", "name": "Trainer", "values": {"max_epochs": 3}},
    ]
    run = build_run({"id": "r"}, {"code": 0}, [ProcessEvents("p", tuple(map(read_event, events)))], Console())
    assert [dict(one.values) for one in run.arguments] == [fit, {"max_epochs": 3}]


def test_a_copy_of_an_option_is_no_constant_of_the_script():
    events = [
        {"k": "arguments", "source": "argparse", "name": "a.py", "values": {"lr": 2.0, "epochs": 3, "n": 24}},
        {"k": "arguments", "source": "constants", "name": "a.py", "values": {"lr": 2.0, "epochs": 5, "n": 20}},
        {"k": "arguments", "source": "constants", "name": "b.py", "values": {"lr": 2.0}},
        {"k": "arguments", "source": "attributes", "name": "Trainer", "values": {"lr": 2.0, "tau": 0.1}},
    ]
    run = build_run({"id": "r"}, {"code": 0}, [ProcessEvents("p", tuple(map(read_event, events)))], Console())
    assert [(one.source, dict(one.values)) for one in run.arguments] == [
        ("argparse", {"lr": 2.0, "epochs": 3, "n": 24}), ("constants", {"epochs": 5}),
        ("attributes", {"tau": 0.1}),
    ]  # fmt: skip


def test_the_variable_of_a_loop_is_no_constant_of_the_script():
    events = [
        {"k": "arguments", "source": "constants", "name": "a.py", "values": {"lr": lr, "epochs": 3}}
        for lr in (0.1, 0.01, 0.001)
    ]
    events.append({"k": "arguments", "source": "constants", "name": "b.py", "values": {"lr": 0.5}})
    run = build_run({"id": "r"}, {"code": 0}, [ProcessEvents("p", tuple(map(read_event, events)))], Console())
    assert [(one.name, dict(one.values)) for one in run.arguments] == [("a.py", {"epochs": 3}), ("b.py", {"lr": 0.5})]


def test_settings_that_differ_between_the_candidates_of_a_search_are_not_those_of_the_run():
    events = [
        {"k": "arguments", "source": "skorch", "name": "NeuralNet", "values": {"lr": lr, "max_epochs": 3}}
        for lr in (0.1, 0.01)
    ]
    run = build_run({"id": "r"}, {"code": 0}, [ProcessEvents("p", tuple(map(read_event, events)))], Console())
    assert [dict(one.values) for one in run.arguments] == [{"max_epochs": 3}]


def test_results_that_another_process_wrote_are_no_configuration():
    def files(path, mode, t):
        return {"k": "files", "t": t, "items": [{"path": path, "mode": mode}]}

    def config(path, t):
        return {"k": "config", "t": t, "path": path, "format": "json", "text": "{}"}

    trained = [config("own.json", 1.0), files("own.json", "rw", 2.0), files("result.json", "w", 3.0)]
    collected = [files("result.json", "r", 4.0), config("result.json", 4.1), config("other.json", 4.2)]
    processes = [
        ProcessEvents(name, tuple(map(read_event, events)))
        for name, events in zip("ab", (trained, collected), strict=True)
    ]
    run = build_run({"id": "r"}, {"code": 0}, processes, Console())
    assert [one.path for one in run.configs] == ["own.json", "other.json"]
