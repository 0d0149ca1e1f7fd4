"""Loaders that return one batch again and again, one order in each epoch, or the same samples in each worker."""

import pytest

LOADER = {"index": 0, "batch_size": 32, "length": 640, "batches": 20}


@pytest.mark.parametrize(
    ("samples", "facts", "verdict"),
    [
        pytest.param("ststst", {}, "fail", id="a sampler that draws the same samples"),
        pytest.param("abcdefghi", {}, "ok", id="images with the same corners, of which prints are made"),
        pytest.param("s", {}, "ok", id="samples that are all alike"),
        pytest.param("stst", {"batches": 1, "length": 32}, "ok", id="a data set of one batch"),
    ],
)
def test_one_batch_in_the_whole_epoch(ask, samples, facts, verdict):
    rows = [[one, 0] for one in samples]
    epoch = {"loader": 0, "phase": "train", "epoch": 0, "batches": 20, "prints": ["a"] * 20, "rows": rows}
    found = ask("same_batch_every_step", signals={"prints": (epoch,), "loaders": ({**LOADER, **facts},)})
    assert found.verdict == verdict


def epochs_of(count, order, loader=0):
    return tuple(
        {"phase": "train", "loader": loader, "epoch": i, "prints": [f"p{n}" for n in order(i)]} for i in range(count)
    )


def test_loaders_that_never_shuffle(ask):
    def asked(prints, *others, **facts):
        loaders = ({"index": 0, **facts}, *others)
        return ask("training_not_shuffled", signals={"prints": prints, "loaders": loaders})

    same = epochs_of(4, lambda i: range(12))
    assert asked(same, shuffle=False).observed == "4 epochs of 12 batches in the same order"
    assert asked(same, shuffle=True) is None and asked(same, shuffle=False, iterable=True) is None
    assert asked(same, {"index": 1, "shuffle": True}, shuffle=False) is None
    assert asked(same[:2], shuffle=False) is None
    assert asked(epochs_of(4, lambda i: range(i, 12 + i)), shuffle=False) is None


def test_batches_cut_by_hand_in_one_order(ask):
    def asked(order):
        return ask("training_not_shuffled", signals={"prints": epochs_of(1, order, None)})

    assert asked(lambda i: [n % 10 for n in range(60)]).verdict == "note"
    assert asked(lambda i: [n % 10 for n in range(25)]) is None
    assert asked(lambda i: [(n * n) % 41 for n in range(80)]) is None
    assert asked(lambda i: [0] * 60) is None


def test_workers_that_draw_alike(ask):
    facts = {"index": 0, "workers": 2, "drawn_alike": True}
    prints = epochs_of(1, lambda i: range(12))
    assert ask("worker_duplicate_randomness", signals={"prints": prints, "loaders": (facts,)}).verdict == "warn"
    single = {**facts, "workers": 1}
    assert ask("worker_duplicate_randomness", signals={"prints": prints, "loaders": (single,)}) is None
    kept = ask("worker_duplicate_randomness", signals={"prints": prints, "loaders": ({**single, "generator": "rng"},)})
    assert kept.verdict == "warn" and "`rng`" in str(kept.evidence)


def test_the_first_batch_again_and_again(ask):
    begun = [{"loader": 0, "phase": "train", "epoch": i, "batches": 1, "prints": ["a"]} for i in range(4)]
    begun += [{"loader": 0, "phase": "train", "epoch": i, "batches": 1, "prints": []} for i in range(4, 60)]
    assert ask("same_batch_every_step", signals={"prints": tuple(begun), "loaders": (LOADER,)}).verdict == "fail"
    whole = {**LOADER, "batches": 1, "length": 32}
    assert ask("same_batch_every_step", signals={"prints": tuple(begun), "loaders": (whole,)}).verdict == "ok"
    by_hand = tuple({**e, "loader": None} for e in begun)
    assert ask("same_batch_every_step", signals={"prints": by_hand}).verdict == "ok"


@pytest.mark.parametrize(
    ("check", "iterable"), [("iterable_dataset_duplicated", True), ("worker_duplicate_randomness", False)]
)
def test_what_comes_once_from_every_worker(ask, check, iterable):
    twice = {"loader": 0, "phase": "train", "epoch": 0, "prints": [p for p in "abcdefgh" for _ in (0, 1)]}
    signals = {"prints": (twice,), "loaders": ({**LOADER, "workers": 2, "iterable": iterable},)}
    assert ask(check, signals=signals).verdict == "fail"
    once = {"prints": ({**twice, "prints": list("abcdefgh")},), "loaders": signals["loaders"]}
    assert ask(check, signals=once) is None


def test_leaves_of_different_length(ask):
    def signals(*labels):
        def row(step, label):
            forms = {"input": [32, 8], "label": label}
            leaves = [{"path": role, "role": role, "shape": shape} for role, shape in forms.items()]
            return {"phase": "train", "step": step, "leaves": leaves, "dims_equal": label[0] == 32}

        return {"batches": tuple(row(step, labels[step % len(labels)]) for step in range(9))}

    assert ask("batch_leading_dim_mismatch", signals=signals([31])).verdict == "warn"
    assert ask("batch_leading_dim_mismatch", signals=signals([8])) is None
    assert ask("batch_leading_dim_mismatch", signals=signals([32])) is None
    assert ask("batch_leading_dim_mismatch", signals=signals([79], [71])) is None, "labels of sequences in a row"
    nodes = ({"fn": "cross_entropy", "training": True, "input": {"shape": [31, 3]}, "target": {"shape": [31]}},)
    assert ask("batch_leading_dim_mismatch", signals={**signals([31]), "losses": nodes}) is None
