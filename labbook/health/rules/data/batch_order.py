"""Checks of the order of batches: repeated, duplicated, always in one order, shared with validation."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from labbook.health.evidence.held_out_metrics import is_held_out
from labbook.health.evidence.layer_history import modules_of
from labbook.health.evidence.training_batches import has_distinct_fingerprints
from labbook.health.evidence.training_kind import training_losses
from labbook.health.rules.normalisation import has_batch_norm
from labbook.model.check import Outcome, check
from labbook.model.events.data_kinds import Loader, Prints
from labbook.model.message import Message, message
from labbook.model.run import Run
from labbook.model.signals import Signals

_STEPS = 8
_OVERLAP = 0.05
_FEW_BY_HAND = 1.1
_BY_HAND = 200
"""Batches cut by hand of which all are known: of later ones some are left out where steps are short."""


def loader_of(signals: Signals, event: Prints) -> Loader:
    """Returns the facts of the loader that an event names; empty when there is none."""
    return next((loader for loader in signals.loaders if loader.get("index") == event.get("loader")), Loader())


def _train_prints(signals: Signals) -> list[Prints]:
    return [event for event in signals.prints if event.get("phase") == "train"]


@check("same_batch_every_step", family="loop-bug", tier=1, needs=("prints",))
def batches_differ(run: Run, signals: Signals) -> Outcome | None:
    """Whether a loader of many batches always returned the same one.

    Source: a logical invariant (tier 1): one fingerprint in at least half of 8 steps or more, from a loader that was
    restarted for each, or in all of 8 steps or more of an epoch. A single batch used on purpose, all data in one, and
    samples that are all alike are only noted or usual.
    """
    by_loader: dict[object, list[Prints]] = {}
    for event in _train_prints(signals):
        by_loader.setdefault(event.get("loader"), []).append(event)
    for loader, events in by_loader.items():
        facts = loader_of(signals, events[0])
        begun = max(e.get("epoch", 0) + 1 for e in events)
        prints = Counter(p for e in events for p in e.get("prints", []))
        total = sum(prints.values())
        if total < 3:
            continue
        share = prints.most_common(1)[0][1] / total
        per_epoch = sum(e.get("batches", 0) for e in events) / len(events)
        many = facts.get("batches", 0) >= 2 or facts.get("length", 0) > 1.5 * max(1, facts.get("batch_size", 0))
        if loader is not None and share >= 0.5 and begun >= _STEPS and per_epoch < 2 and many:
            return Outcome("fail", message("health.same_batch_every_step.same", share=share, times=begun))
        epoch = next((e for e in events if _repeats_one_batch(e)), None)
        if loader is not None and epoch is not None and many:
            return Outcome("fail", message("health.same_batch_every_step.epoch", batches=len(epoch["prints"])))
    return Outcome("ok", message("health.same_batch_every_step.ok"))


def _repeats_one_batch(epoch: Prints) -> bool:
    """Whether all batches of an epoch are the same: their prints, and their samples, which differ within a batch.

    The print of a batch is made of a few elements, which may be the same in all, as the corners of images.
    """
    prints, samples = epoch.get("prints", []), [row[0] for row in epoch.get("rows", [])]
    if len(prints) < _STEPS or len(set(prints)) > 1 or len(set(samples)) < 2:
        return False
    return any(samples[size:] == samples[:-size] for size in range(2, len(samples) // 2 + 1))


@check("order_identical_each_epoch", family="loop-bug", tier=2, needs=("prints",))
def order_changes(run: Run, signals: Signals) -> Outcome | None:
    """Whether a loader that shuffles had the same order in two epochs, or more.

    Source: a statistical test (tier 2): with 8 batches the chance is under 1 in 40,000. Loaders that do not shuffle
    have one order by design.
    """
    by_place: dict[object, list[Prints]] = {}
    for event in _train_prints(signals):
        if event.get("loader") is not None and len(event.get("prints", [])) >= 6:
            by_place.setdefault(loading_place(loader_of(signals, event)), []).append(event)
    for events in by_place.values():
        facts, epochs = loader_of(signals, events[0]), [event.get("prints", []) for event in events]
        sampler = facts.get("sampler", "")
        shuffles = facts.get("shuffle") or _is_known_to_shuffle(sampler)
        orders = [tuple(e) for e in epochs if len(set(e)) > 0.9 * len(e)]
        if len(orders) < 2 or not shuffles or facts.get("iterable"):
            continue
        alike = sum(a == b for a, b in pairwise(orders))
        if alike == len(orders) - 1:
            observed = message(
                "health.order_identical_each_epoch.same", epochs=len(orders), batches=len(orders[0]), sampler=sampler
            )
            return Outcome("fail" if _is_known_to_shuffle(sampler) else "note", observed)
        return Outcome("ok", message("health.order_identical_each_epoch.ok"))
    return None


def _is_known_to_shuffle(sampler: str) -> bool:
    """Whether a sampler is of a known kind; one of the program's own may form its batches once, on purpose."""
    return any(word in sampler for word in ("Random", "Distributed", "Shuffl"))


@check("training_not_shuffled", family="data", tier=3, needs=("prints",))
def order_is_shuffled(run: Run, signals: Signals) -> Outcome | None:
    """Whether at least 3 epochs of a loader that does not shuffle, or of batches cut by hand, had one order.

    Source: a hint (tier 3); series and text are read in order on purpose. Beside a loader that shuffles, one that does
    not is that of a validation with gradients.
    """
    if any(loader.get("shuffle") for loader in signals.loaders):
        return None
    by_place: dict[object, list[tuple[str, ...]]] = {}
    for event in _train_prints(signals):
        facts, prints = loader_of(signals, event), tuple(event.get("prints", []))
        if event.get("loader") is None:
            period = _period(prints[:_BY_HAND])
            if period:
                return Outcome("note", message("health.training_not_shuffled.period", batches=period))
        elif not facts.get("shuffle") and not facts.get("iterable") and len(prints) >= 6:
            by_place.setdefault(loading_place(facts), []).append(prints)
    for epochs in by_place.values():
        if len(epochs) >= 3 and len(set(epochs)) == 1 and len(set(epochs[0])) > 0.9 * len(epochs[0]):
            observed = message("health.training_not_shuffled.epochs", epochs=len(epochs), batches=len(epochs[0]))
            return Outcome("note", observed)
    return None


def _period(prints: tuple[str, ...]) -> int:
    """After how many batches they come again in the same order, at least three times; 0 where they do not."""
    period = next((i for i in range(1, len(prints)) if prints[i] == prints[0]), 0)
    if period < 6 or len(prints) < 3 * period or len(set(prints[:period])) < period:
        return 0
    return period if all(a == b for a, b in zip(prints, prints[period:], strict=False)) else 0


def loading_place(loader: Loader) -> object:
    """Returns which loader it is in the program: one that is created again for each epoch is the same."""
    place = (loader.get("line"), loader.get("length"), loader.get("batch_size"), loader.get("sampler"))
    return place if loader.get("line") else loader.get("index")


@check("state_carried_between_sequences", family="loop-bug", tier=1, needs=("prints",))
def state_begins_anew(run: Run, signals: Signals) -> Outcome | None:
    """Whether a recurrent layer begins each batch with the state of the last one, of samples in random order.

    Source: a logical invariant (tier 1) over every two looks at neighbouring steps, at least twice, where all loaders
    of the training shuffle, or samples cut by hand come again with others after them. Text that is read in order is
    trained this way on purpose.
    """
    read = _train_prints(signals)
    loaded = [event for event in read if event.get("loader") is not None]
    # A few batches of a loader may be followed as if they were cut by hand.
    read = loaded if _batches(read) < _FEW_BY_HAND * _batches(loaded) else read
    if not read or not all(_is_shuffled(signals, event) for event in read):
        return None
    for module in modules_of(signals):
        looks = [(step, row["carried"]) for step, row in module.history if "carried" in row]
        after = [carried for (last, _), (step, carried) in pairwise(looks) if step == last + 1]
        if len(after) >= 2 and all(after):
            observed = message("health.state_carried_between_sequences.carried", layer=module.label, steps=len(after))
            return Outcome("warn", observed)
    return None


def _batches(events: Sequence[Prints]) -> int:
    return sum(event.get("batches", 0) for event in events)


def _is_shuffled(signals: Signals, event: Prints) -> bool:
    """Whether the samples of an epoch are surely in a random order."""
    if event.get("loader") is not None:
        loader = loader_of(signals, event)
        return bool(loader.get("shuffle")) and not loader.get("iterable")
    rows = _row_prints(event)
    after: dict[str, list[str]] = {}
    for one, other in pairwise(rows):
        after.setdefault(one, []).append(other)
    again = [others for others in after.values() if len(others) > 1]
    return len(again) >= 2 * _STEPS and sum(len(set(others)) == 1 for others in again) < 0.2 * len(again)


@check("iterable_dataset_duplicated", family="data", tier=1, needs=("loaders", "prints"))
def stream_is_split(run: Run, signals: Signals) -> Outcome | None:
    """Whether each batch of an iterable dataset came once from every worker. Source: a logical invariant (tier 1)."""
    found = _as_often_as_workers(signals, iterable=True)
    return Outcome("fail", found) if found is not None else None


@check("worker_duplicate_randomness", family="data", tier=2, needs=("loaders", "prints"))
def workers_draw_their_own(run: Run, signals: Signals) -> Outcome | None:
    """Whether batches of different samples are equal in every worker, because random numbers are.

    Source: TrainCheck so-67180955 (tier 2): every fingerprint as often in an epoch as there are workers; or the code of
    worker_init_fn, where only a part of each sample is random; or a generator of numpy that the dataset keeps.
    """
    found = _as_often_as_workers(signals, iterable=False)
    if found is not None:
        return Outcome("fail", found)
    for facts in signals.loaders:
        if facts.get("drawn_alike") and facts.get("workers", 0) > 1:
            observed = message("health.worker_duplicate_randomness.same_numbers", workers=facts.get("workers", 0))
            return Outcome("warn", observed, (message("health.worker_duplicate_randomness.init_fn"),))
        if facts.get("generator"):
            observed = message("health.worker_duplicate_randomness.same_numbers", workers=facts.get("workers", 0))
            evidence = message("health.worker_duplicate_randomness.generator", name=facts.get("generator", ""))
            return Outcome("warn", observed, (evidence,))
    return None


def _as_often_as_workers(signals: Signals, *, iterable: bool) -> Message | None:
    for event in _train_prints(signals):
        facts = loader_of(signals, event)
        workers, prints = facts.get("workers", 0), Counter(event.get("prints", []))
        too_few = workers < 2 or len(prints) < 2 or sum(prints.values()) < 2 * workers
        if too_few or facts.get("iterable", False) != iterable:
            continue
        share = sum(n == workers for n in prints.values()) / len(prints)
        if share >= 0.8:
            return message("health.workers_repeat_batches", workers=workers)
    return None


_CLEAN = 8
"""Samples of which none was trained on that make a loader the validation. Source: chosen by us."""


@check("train_val_overlap", family="data", tier=1, needs=("prints",))
def validation_is_new(run: Run, signals: Signals) -> Outcome | None:
    """Whether samples of a validation loader were trained on. Where another is clean, one of these only is training.

    Source: a logical invariant (tier 1); deepchecks TrainTestSamplesMix. From 5 % on, because data sets have some equal
    samples (chosen by us).
    """
    own = {e.get("loader") for e in _train_prints(signals)}
    held_out: dict[object, set[str]] = {}
    for event in signals.prints:
        if event.get("phase") == "eval" and event.get("loader") is not None and event.get("loader") not in own:
            held_out.setdefault(event.get("loader"), set()).update(_row_prints(event))
    trained = _trained_samples(signals, held_out)
    judged = {loader: found for loader, found in held_out.items() if len(found) >= 20 and len(trained[loader]) >= 20}
    shares = {loader: len(found & trained[loader]) / len(found) for loader, found in judged.items()}
    if not shares and _is_measured_on_training(run, signals, own):
        return Outcome("fail", message("health.train_val_overlap.same_loader"))
    if not shares and (name := _metric_of_trained_batch(run, signals)):
        return Outcome("warn", message("health.train_val_overlap.same_batch", name=name))
    if not shares or not has_distinct_fingerprints(signals):
        return None
    worst = max(shares, key=lambda loader: shares[loader])
    # Only some samples of a batch are looked at: a set that is all training data shows as large a share as that.
    coverage = min(1.0, len(trained[worst]) / max(1, *(e.get("samples", 0) for e in _train_prints(signals))))
    clean = {loader for loader, share in shares.items() if share < _OVERLAP * coverage}
    # A small validation set has too few samples to be judged, and enough to be the one that measures validation.
    small = {loader for loader, found in held_out.items() if len(found) >= _CLEAN and trained[loader]}
    clean |= {loader for loader in small if not held_out[loader] & trained[loader]}
    is_training = bool(clean) and (shares[worst] > 0.8 * coverage or _is_undivided(signals, worst, own, clean))
    both = len(judged[worst] & trained[worst])
    if both < 3 or shares[worst] < max(_OVERLAP * coverage, 0.01) or is_training:
        return Outcome("ok", message("health.train_val_overlap.ok", share=min(shares.values())))
    return Outcome("fail", message("health.train_val_overlap.found", bad=both, samples=len(judged[worst])))


def _is_undivided(signals: Signals, loader: object, own: Collection[object], clean: Collection[object]) -> bool:
    """Whether a loader is as long as a training and a clean one together: it has the rows of both."""
    lengths: dict[object, int] = {facts.get("index"): facts.get("length", 0) for facts in signals.loaders}
    return lengths.get(loader, 0) in {lengths.get(a, 0) + lengths.get(b, 0) for a in own for b in clean} - {0}


def _trained_samples(signals: Signals, held_out: Mapping[object, set[str]]) -> dict[object, set[str]]:
    """Returns validation loader -> samples that its model was trained on.

    The validation samples of one fold train the model of another one. A loader that begins between the first steps of
    two trainings validates the earlier one, or the later one before its first step: of the two, the one that was
    trained on fewer of its samples.
    """
    begins = [begin for begin, _ in signals.trainings]
    training_of = _training_of_loaders(signals, begins, held_out)
    trained: dict[int, set[str]] = {}
    for event in _train_prints(signals):
        trained.setdefault(training_of.get(event.get("loader"), 0), set()).update(_row_prints(event))
    begun: dict[object, int] = {
        loader.get("index"): bisect_right(begins, loader.get("t", 0.0)) for loader in signals.loaders
    }
    beside = {}
    for loader, found in held_out.items():
        last = begun.get(loader, 0)
        numbers = [n for n in (last - 1, last) if 0 <= n < len(begins)] if training_of else [0]
        beside[loader] = min((trained.get(n, set()) for n in numbers), key=lambda samples: len(samples & found))
    return beside


def _training_of_loaders(
    signals: Signals, begins: Sequence[float], held_out: Collection[object]
) -> dict[int | None, int]:
    """Returns training loader -> number of its training; nothing unless each training has loaders of its own.

    The last loader that begins before the first step of a training is its first one.
    """
    if not begins:
        return {}
    times = sorted((loader.get("t", 0.0), n) for n, loader in enumerate(signals.loaders))
    loaders = [signals.loaders[n] for _, n in times if signals.loaders[n].get("index") not in held_out]
    found = {loader.get("index"): max(0, bisect_right(begins, loader.get("t", 0.0)) - 1) for loader in loaders}
    for number, begin in enumerate(begins):
        before = [loader for loader in loaders if loader.get("t", 0.0) <= begin]
        if not before or (number and before[-1].get("t", 0.0) < begins[number - 1]):
            return {}
        found[before[-1].get("index")] = number
    return found


def _is_measured_on_training(run: Run, signals: Signals, own: set[int | None]) -> bool:
    """Whether a metric is called validation, and all evaluations ran over the loaders that the model is trained on."""
    names = [series for series in (*run.series, *run.printed) if is_held_out(series.name) and "test" not in series.name]
    known = [phase for phase in signals.evaluations if phase.get("loader") is not None]
    lengths = {phase.get("batches") for phase in known}
    # Of later phases the loader is not followed where steps are short.
    alike = all(phase.get("batches") in lengths for phase in signals.evaluations)
    return bool(names) and len(known) >= 3 and alike and {phase.get("loader") for phase in known} <= own


def _metric_of_trained_batch(run: Run, signals: Signals) -> str:
    """Name of a metric of validation where all evaluations ran on the one batch that is trained on as a whole, else "".

    Of a graph or table of which only some rows are trained, the loss has fewer items than the batch has samples.
    """
    names = [s.name for s in (*run.series, *run.printed) if is_held_out(s.name) and "eval" not in s.name.lower()]
    phases: dict[str, set[str]] = {"train": set(), "eval": set()}
    for event in signals.prints:
        phases.setdefault(event.get("phase", ""), set()).update(event.get("prints", []))
    losses = training_losses(signals)
    samples = {b.get("samples", 0) for b in signals.batches if b.get("phase") == "train"}
    whole = len(losses) == 1 and len(samples) == 1 and losses[0].get("target", {}).get("shape", ())[:1] == (*samples,)
    same = whole and len(phases["train"]) == 1 and phases["eval"] == phases["train"]
    return names[0] if names and same else ""


def _row_prints(event: Prints) -> list[str]:
    return [row[0] for row in event.get("rows", [])]


@check("validation_changes", family="data", tier=3, needs=("prints", "loaders"))
def validation_stays(run: Run, signals: Signals) -> Outcome | None:
    """Whether a validation loader that does not shuffle gave other batches in each epoch, as with augmentation.

    Source: a hint (tier 3), chosen by us: at least 3 epochs, no batch of which came again at its place. Trainings of
    one program, as in a cross validation, have data of their own each.
    """
    if run.captured.get("trainings") or run.captured.get("phases"):
        return None
    by_loader: dict[object, list[tuple[str, ...]]] = {}
    for event in signals.prints:
        facts, prints = loader_of(signals, event), tuple(event.get("prints", []))
        if event.get("phase") == "eval" and facts.get("shuffle") is False and not facts.get("iterable") and prints:
            by_loader.setdefault(loading_place(facts), []).append(prints)
    for epochs in by_loader.values():
        alike = any(a == b for one, other in pairwise(epochs) for a, b in zip(one, other, strict=False))
        if len(epochs) >= 3 and not alike and len({len(one) for one in epochs}) == 1:
            return Outcome("note", message("health.validation_changes.epochs", epochs=len(epochs)))
    return None


@check("batch_size_irregular", family="data", tier=3, needs=("loaders",))
def last_batch_large_enough(run: Run, signals: Signals) -> Outcome | None:
    """Whether the last batch of an epoch is tiny in a model with batch norm. Source: a hint (tier 3)."""
    if (short := short_last_batch(signals)) is None:
        return None
    last, size, batches = short
    samples = (batches - 1) * size + last
    return Outcome("note", message("health.batch_size_irregular.last", last=last, samples=samples, size=size))


def short_last_batch(signals: Signals) -> tuple[int, int, int] | None:
    """Returns the samples of a last batch that is tiny for batch norm, those of the others, and the batches."""
    trained_on = {event.get("loader") for event in _train_prints(signals)} if has_batch_norm(signals) else set()
    for facts in signals.loaders:
        length, size = facts.get("length", 0), facts.get("batch_size", 0)
        if facts.get("index") not in trained_on or length <= size or size < 8 or facts.get("drop_last"):
            continue
        if 0 < length % size < 0.1 * size:
            return length % size, size, length // size + 1
    return None
