"""Time, memory, ranks and environment."""

import random

import pytest

from labbook.health.rules.performance import phase_times
from labbook.model.run import Arguments, Console, Framework
from labbook.model.signals import Signals

MIB = 1024 * 1024


def phases(make_series, n=100, **seconds):
    return {"phases": {name: make_series(name, [value] * n) for name, value in seconds.items()}}


@pytest.mark.parametrize(
    ("seconds", "verdict"),
    [
        ({"data": 0.03, "forward": 0.01, "backward": 0.01}, "warn"),
        ({"data": 0.001, "forward": 0.0003, "backward": 0.0003}, "ok"),
        ({"data": 0.002, "forward": 0.1, "backward": 0.2}, "ok"),
    ],
)
def test_waiting_for_data(ask, make_series, seconds, verdict):
    found = ask("dataloader_bottleneck", signals=phases(make_series, **seconds))
    assert found.verdict == verdict and found.evidence
    assert ask("dataloader_bottleneck").verdict == "not observed"
    # The step time of the row is the median of the steps, as in the rest of the entry.
    series = make_series("step_time_s", [0.5] * 300)
    assert ask("dataloader_bottleneck", series, signals=phases(make_series, **seconds)).observed.startswith(
        "500 ms" if verdict == "ok" else ""
    )
    short = phases(make_series, n=30, data=0.02, forward=0.01)
    assert ask("dataloader_bottleneck", signals=short).verdict == "note"


@pytest.mark.parametrize(
    ("load", "cores", "verdict"), [(10.0, 0.1, "note"), (10.0, 3.9, "warn"), (0.3, 0.1, "warn"), (None, 0.1, "warn")]
)
def test_a_busy_machine_is_no_bottleneck_of_the_loader(ask, make_series, load, cores, verdict):
    used = {"cpu_mean_cores": cores, **({"load_per_core": load} if load is not None else {})}
    waiting = phases(make_series, data=0.03, forward=0.01)
    found = ask("dataloader_bottleneck", signals=waiting, captured={"resources": used})
    assert found.verdict == verdict
    assert any("busy with other programs" in one for one in found.evidence) == (verdict == "note")


def test_a_closure_leaves_the_shares_of_a_step_unknown(ask, make_series):
    """It runs the other phases in that of the optimizer."""
    known = phases(make_series, data=0.001, optimizer=0.049)
    for closure, observed in ((False, "50 ms, most in optimizer (98 %)"), (True, "50 ms")):
        signals = {**known, "optimizers": ({"index": 0, "closure": closure},)}
        assert ask("dataloader_bottleneck", signals=signals).observed == observed


@pytest.mark.parametrize(("own", "shown"), [(0.001, True), (0.05, False)])
def test_the_parts_of_a_step_are_left_out_where_the_probe_takes_much_of_it(ask, make_series, own, shown):
    signals = phases(make_series, forward=0.004, backward=0.006, probe=own)
    found = ask("dataloader_bottleneck", signals=signals)
    assert found.verdict == "ok" and ("backward (60 %)" in found.observed) == shown == bool(found.evidence)
    assert set(phase_times(Signals("torch", phases=signals["phases"]))) == ({"forward", "backward"} if shown else set())


def test_steps_that_get_slower(ask, make_series):
    random_ = random.Random(0)
    slower = [0.01 * (1 + i / 200) * random_.uniform(0.9, 1.1) for i in range(600)]
    assert ask("step_time_drift", make_series("step_time_s", slower)).verdict == "warn"
    even = [0.01 * random_.uniform(0.5, 1.5) for i in range(600)]
    assert ask("step_time_drift", make_series("step_time_s", even)).verdict == "ok"
    busy = [0.01 if i < 300 else 0.02 for i in range(330)]
    assert ask("step_time_drift", make_series("step_time_s", busy)).verdict == "ok"


def test_outliers_that_take_the_time(ask, make_series):
    saving = make_series("step_time_s", [0.5 if i % 8 == 0 else 0.01 for i in range(300)])
    assert ask("step_time_outlier", saving) is None
    found = ask("step_time_outlier", saving, signals={"loop": {"steps": 300}})
    assert found.verdict == "warn" and found.evidence == ("one in every 8 steps",)
    assert ask("step_time_outlier", saving, signals={"loop": {"steps": 300}, "loaders": ({"batches": 8},)}) is None
    assert ask("step_time_outlier", saving, signals={"loop": {"steps": 300}, "loaders": ({"length": 8},)}) is None
    noisy = [0.5 if i % 16 == 0 else 0.06 if i % 23 == 0 else 0.01 for i in range(300)]
    noisy = make_series("step_time_s", noisy)
    found = ask("step_time_outlier", noisy, signals={"loop": {"steps": 300}})
    assert found.verdict == "warn" and found.evidence == ("one in every 16 steps",)
    validated = {"loop": {"steps": 300}, "evaluations": ({},) * 10}  # of 19 slow steps; the other ones are noise
    assert ask("step_time_outlier", noisy, signals=validated) is None
    disturbed = [0.5 if i % 16 == 0 or i in (37, 100, 101, 222) else 0.01 for i in range(300)]
    found = ask("step_time_outlier", make_series("step_time_s", disturbed), signals={"loop": {"steps": 300}})
    assert found.verdict == "warn" and found.evidence == ("one in every 16 steps",)
    random_ = random.Random(1)
    busy = [5.0 if random_.random() < 0.1 else 0.01 for i in range(300)]
    assert ask("step_time_outlier", make_series("step_time_s", busy)).verdict == "note"
    assert ask("step_time_outlier", make_series("step_time_s", [v / 100 for v in busy])) is None


def on(device, elements=10_000_000, kind="cuda"):
    state = {"device": [device], "parameters": elements, "deterministic": {"use_deterministic_algorithms": True}}
    return {"frameworks": (Framework("torch", "2", devices=({"kind": kind},), state=state),)}


def test_accelerators(ask):
    assert ask("accelerator_idle_unused", **on("cpu"), ended=100.0).verdict == "warn"
    assert ask("accelerator_idle_unused", **on("cpu", 100), ended=100.0).verdict == "note"
    assert ask("accelerator_idle_unused", **on("cuda:0"), ended=100.0) is None
    assert ask("accelerator_idle_unused", **on("cpu", kind="cpu"), ended=100.0) is None
    gpus = {"resources": {"gpus": [{"own_peak_memory_bytes": 9, "mean_utilisation_percent": 8.0}]}}
    assert ask("accelerator_underused", **on("cuda:0"), captured=gpus, ended=900.0).verdict == "note"
    assert ask("accelerator_underused", **on("cuda:0"), captured=gpus, ended=9.0) is None
    arguments = (Arguments("argparse", "args", {"device": "cuda"}),)
    assert ask("device_fallback", **on("cpu"), arguments=arguments).verdict == "warn"
    assert ask("device_fallback", **on("cuda:0"), arguments=arguments) is None


@pytest.mark.parametrize(
    ("device", "verdict"),
    [(["cpu"], "ok"), ("cpu", "ok"), (["cuda:0"], "note"), (["cpu", "cuda:0"], "note"), (None, "note")],
)
def test_deterministic_algorithms_are_asked_for_on_gpus(ask, device, verdict):
    state = {"device": device, "deterministic": {"use_deterministic_algorithms": False}}
    assert ask("determinism", frameworks=(Framework("torch", "2", state=state),)).verdict == verdict


def test_determinism_against_benchmark(ask):
    flags = {"use_deterministic_algorithms": True, "cudnn.benchmark": True}
    state = {"device": ["cuda:0"], "deterministic": flags}
    both = (Framework("torch", "2", state=state),)
    assert ask("nondeterminism_requested_not_met", frameworks=both).verdict == "warn"
    assert ask("nondeterminism_requested_not_met", **on("cuda:0")) is None


def test_small_hints(ask, make_series):
    assert ask("recompilation_storm", signals={"loop": {"recompiles": 12}}).verdict == "warn"
    assert ask("recompilation_storm", signals={"loop": {"recompiles": 2}}) is None
    rising = make_series("step_time_s", [0.01 + 0.0001 * i for i in range(400)])
    sizes = tuple({"phase": "train", "leaves": [{"shape": [8, 10 + 10 * i]}]} for i in range(8))
    assert ask("step_time_drift", rising).verdict == "warn"
    assert ask("step_time_drift", rising, signals={"batches": sizes}).verdict == "ok"
    workers = {"loaders": ({"index": 0, "workers": 16},)}
    assert ask("too_many_workers", signals=workers, captured={"hardware": {"cores": 4}}).verdict == "note"
    assert ask("too_many_workers", signals=workers, captured={"hardware": {"cores": 32}}) is None
    text = "[W] find_unused_parameters=True was specified, but did not find any unused parameters in the forward pass."
    assert ask("find_unused_parameters_needless", console=Console(text)).verdict == "warn"
    warned = ({"category": "FutureWarning", "message": "old", "file": "/home/me/train.py", "line": 3, "own": True},)
    assert "train.py:3" in ask("deprecated_api_warning", warnings=warned).evidence[0]
    theirs = ({**warned[0], "own": False},)
    assert ask("deprecated_api_warning", warnings=theirs) is None


def test_validation_with_gradients(ask):
    def signals(**fields):
        return {"evaluations": tuple({"batches": 12, "training": False, "grad": True, **fields} for _ in range(3))}

    assert "36 batches in 3 phases" in ask("grad_enabled_in_validation", signals=signals()).observed
    assert ask("grad_enabled_in_validation", signals=signals(grad=False)) is None
    assert ask("grad_enabled_in_validation", signals=signals(asked=True)) is None
    assert ask("grad_enabled_in_validation", signals=signals(samples=12)) is None  # text of one sample
    assert ask("grad_enabled_in_validation", signals=signals(samples=12, loader=1)).verdict == "warn"


def test_a_run_that_stood_still(ask, make_series):
    steps = make_series("step_time_s", [0.1] * 50)
    stuck = Signals("torch", spans={0: (1.0, 100.0)}, ended=100.0)
    assert ask("stalled_no_progress", steps, signals=stuck, status="interrupted", ended=900.0).verdict == "warn"
    assert ask("stalled_no_progress", steps, signals=stuck, status="interrupted", ended=110.0) is None
    assert ask("stalled_no_progress", steps, signals=stuck, status="finished", ended=900.0) is None


def test_a_run_that_was_stopped_while_a_hang_was_named_stood_still(ask, make_series):
    facts = {"status": "interrupted", "ended": 110.0, "captured": {"ranks": {"hung_s": 21.0}}}
    stuck = Signals("torch", spans={0: (1.0, 100.0)}, ended=100.0)
    outcome = ask("stalled_no_progress", make_series("step_time_s", [0.1] * 50), signals=stuck, **facts)
    assert outcome.verdict == "warn" and "21 s" in outcome.observed


def memory(size, n=60, every=10, **extra):
    return {"memory": tuple({"step": i * every, "rss": size(i * every), **extra} for i in range(n))}


def test_memory(ask):
    assert ask("memory_graph_retained", signals=memory(lambda s: 1e9 + 2e6 * s)).verdict == "warn"
    assert ask("memory_graph_retained", signals=memory(lambda s: 1e9 + 2e4 * s)).verdict == "ok"
    assert ask("memory_graph_retained", signals=memory(lambda s: 1e9 * (1 + min(s, 60) / 60))).verdict == "ok"
    assert ask("memory_graph_retained", signals=memory(lambda s: 1e9, n=2)).verdict == "not observed"


def test_graphs_that_stay_alive(ask):
    kept = memory(lambda s: 3e8 + 1e5 * s, graphs=40, graphs_of=40)
    found = ask("memory_graph_retained", signals=kept)
    assert found.verdict == "fail" and "graphs of 40 of 40 inspected backward passes" in found.observed
    assert ask("memory_graph_retained", signals=memory(lambda s: 3e8, graphs=40, graphs_of=40)).verdict == "warn"
    assert ask("memory_graph_retained", signals=memory(lambda s: 3e8, graphs=2, graphs_of=40)).verdict == "ok"


def test_workers_and_devices(ask):
    workers = tuple({"step": i * 10, "rss": 1e9, "workers_rss": 1e9 + 2e6 * i * 10} for i in range(60))
    assert ask("host_memory_growth_workers", signals={"memory": workers}).verdict == "warn"
    few = (20, 23, 26, 29, 33, 37, 42, 48, 55, 63, 72, 82, 94, 108, 124, 142, 163, 187, 215, 239)
    growing = tuple({"step": step, "rss": 3e8, "workers_rss": 1.9e8 + 2.1e6 * step} for step in few)
    assert ask("host_memory_growth_workers", signals={"memory": growing}).verdict == "warn"
    filled = tuple({"step": step, "rss": 3e8, "workers_rss": 1.9e8 + 4e6 * min(step, 100)} for step in few)
    assert ask("host_memory_growth_workers", signals={"memory": filled}) is None
    full = {"peak": 95 * MIB, "total": 100 * MIB, "reserved": 96 * MIB, "allocated": 90 * MIB}
    assert ask("near_out_of_memory", signals=memory(lambda s: 1e9, device=full)).verdict == "note"
    assert ask("fragmentation", signals=memory(lambda s: 1e9, device=full)) is None
    split = {**full, "peak": 40 * MIB}
    assert ask("fragmentation", signals=memory(lambda s: 1e9, device=split)).verdict == "note"
    assert ask("near_out_of_memory", signals=memory(lambda s: 1e9, device=split)) is None


def ranks(make_model, prints, wrapper="DistributedDataParallel", **fields):
    made = []
    for rank, of_rank in enumerate(prints):
        tensors = tuple({"step": i + 1, "param_print": p} for i, p in enumerate(of_rank))
        extra = {name: value[rank] for name, value in fields.items()}
        made.append(Signals("torch", rank=rank, models=(make_model(wrapper, "Linear"),), tensors=tensors, **extra))
    return made


def test_replicas(ask, make_model):
    apart = ask("replica_divergence", signals=ranks(make_model, ["aab", "aac", "aab"]))
    assert apart.verdict == "fail" and apart.where["step"] == 3 and "differ from the others: 1" in apart.evidence[0]
    assert ask("replica_divergence", signals=ranks(make_model, ["aab", "aab"])).verdict == "ok"
    assert (
        ask("replica_divergence", signals=ranks(make_model, ["abc", "xyz"], wrapper="FullyShardedDataParallel")) is None
    )


def test_replicas_that_begin_apart_where_the_program_averages_gradients_itself(ask, make_model):
    averaged = {"loop": [{"collectives": {"of_gradients": 4}}] * 2}
    for prints, is_start in ((["abc", "xyz"], True), (["abc", "abz"], False)):
        found = ask("replica_divergence", signals=ranks(make_model, prints, wrapper="Linear", **averaged))
        assert found.verdict == "fail" and ("Broadcast the parameters" in str(found.advice)) is is_start


def test_ranks_with_the_same_data(ask, make_model):
    def epoch(names):
        return ({"phase": "train", "loader": 0, "epoch": 0, "rows": [[n] for n in names]},)

    same = [epoch("abcdefghij"), epoch("abcdefghij")]
    own = [epoch("abcdefghij"), epoch("klmnopqrst")]
    leaf = {"path": "0", "role": "input", "shape": [32, 8], "zero": 0.0}
    batch = ({"step": 1, "phase": "train", "samples": 32, "leaves": [leaf]},)
    made = ranks(make_model, ["a", "a"])
    for prints, verdict in ((same, "fail"), (own, "ok")):
        found = [Signals("torch", rank=s.rank, models=s.models, batches=batch, prints=prints[s.rank]) for s in made]
        assert ask("rank_data_overlap", signals=found).verdict == verdict


def test_a_rank_that_is_always_last(ask, make_series):
    def signals(slow, backward=0.001):
        return [
            Signals(
                "torch",
                rank=r,
                phases={
                    "forward": make_series("forward", [0.01 * (slow if r == 1 else 1)] * 200),
                    "backward": make_series("backward", [backward] * 200),
                },
            )
            for r in (0, 1, 2)
        ]

    found = ask("straggler", signals=signals(2.0))
    assert found.verdict == "warn" and found.where == {"rank": 1}
    assert ask("straggler", signals=signals(1.05)).verdict == "ok"
    assert ask("straggler", signals=signals(2.0, backward=0.1)).verdict == "ok"  # a tenth of the step


def reducing(make_model, orders, batches=(16, 16), steps=(64, 64), wrapper="DistributedDataParallel"):
    """Signals of two ranks that reduce gradients themselves, in these orders."""
    return [
        Signals(
            "torch",
            rank=rank,
            loop={
                "steps": steps[rank],
                "wrapper": wrapper,
                "collectives": {"first": [["all_reduce", name] for name in orders[rank]], "of_gradients": 3},
            },
            loaders=({"index": 0, "batches": batches[rank], "length": 10 * batches[rank]},),
            prints=({"phase": "train", "loader": 0, "epoch": 0},),
        )
        for rank in (0, 1)
    ]


def test_collectives_in_another_order(ask, make_model):
    found = ask("collective_order_mismatch", signals=reducing(make_model, [["a", "b", "c"], ["b", "a", "c"]]))
    assert found.verdict == "fail" and found.where == {"rank": 1} and found.observed.startswith("call 1 of a step")
    assert ask("collective_order_mismatch", signals=reducing(make_model, ["abc", "abc"])).verdict == "ok"
    assert ask("collective_order_mismatch", signals=reducing(make_model, ["ab", "cd"])).verdict == "ok"


def test_ranks_with_more_batches(ask, make_model):
    uneven = reducing(make_model, ["a", "a"], batches=(36, 28), steps=(112, 112))
    found = ask("rank_step_count_mismatch", signals=uneven)
    assert found.verdict == "fail" and found.observed == "batches per epoch: rank 0: 36, rank 1: 28"
    assert ask("rank_step_count_mismatch", signals=reducing(make_model, ["a", "a"])).verdict == "ok"
    joined = reducing(make_model, ["a", "a"], batches=(36, 28), steps=(144, 112))
    assert ask("rank_step_count_mismatch", signals=joined).verdict == "note"


def test_a_wrapper_that_is_not_called_still_promises_equal_replicas(ask, make_model):
    tensors = [({"step": 1, "param_print": name},) for name in "xy"]
    found = [
        Signals("torch", rank=rank, loop={"wrapper": "DistributedDataParallel"}, tensors=tensors[rank])
        for rank in (0, 1)
    ]
    found = ask("replica_divergence", signals=found)
    assert found.verdict == "fail" and "Broadcast" not in str(found.advice)
    alone = [Signals("torch", rank=rank, tensors=tensors[rank]) for rank in (0, 1)]
    assert ask("replica_divergence", signals=alone) is None


@pytest.mark.parametrize(
    ("rates", "fields", "verdict"),
    [
        ([7e-7] * 60 + [1.4e-6] * 30 + [2.1e-6] * 30, {}, "warn"),  # a warm-up over steps, stepped once per epoch
        ([1e-8 * step for step in range(1, 101)], {}, "warn"),
        ([1e-8 * step for step in range(1, 101)], {"status": "interrupted"}, "ok"),
        ([1e-8 * step for step in range(1, 101)], {"asked": {"stopped": {"option": "--max-steps"}}}, "ok"),
        ([1e-5 * step for step in range(1, 101)], {}, "ok"),  # it reached a rate at which a model learns
        ([5e-7 * step for step in range(1, 11)] + [5e-6] * 90, {}, "ok"),  # it ended
        ([5e-6] * 100, {}, "ok"),
        ([1e-7 * step for step in range(1, 101)], {"base": 2e-3}, "warn"),
        ([0.0] * 25 + [2e-6] * 25 + [4e-6] * 25 + [6e-6] * 25, {"base": 1e-3}, "warn"),  # not its idle beginning alone
        ([1e-5 * step for step in range(1, 101)], {"base": 2e-3}, "ok"),
        ([1e-5 * step for step in range(1, 101)], {"base": 1.0}, "ok"),  # the schedule gives the rate
    ],
)
def test_a_warm_up_that_never_ends(ask, make_series, rates, fields, verdict):
    schedule = {"type": "LambdaLR", "steps": 100, "optimizer_steps": 100}
    made = {"index": 0, "options": {"lr": fields.get("base")}}
    signals = {"loop": {"steps": 100, "scheduler": {"0": schedule}}, "optimizers": (made,)}
    fields = {name: value for name, value in fields.items() if name != "base"}
    found = ask("lr_schedule_wrong", make_series("lr", rates), signals=signals, **fields)
    assert found.verdict == verdict and (verdict == "ok" or "until the end" in str(found.observed))
