"""Checks of models that predict tokens: how far the target is ahead of the input, and what attention sees of it."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import mean

from labbook.health.evidence.layer_history import Module, modules_of
from labbook.health.evidence.measurements import called_in_sentence, place_of
from labbook.health.evidence.training_batches import input_leaves
from labbook.health.evidence.training_kind import training_losses
from labbook.model.check import Outcome, check
from labbook.model.events.data_kinds import Leaf, Tokens
from labbook.model.events.inspection_kinds import FunctionInspection, ModuleInspection
from labbook.model.message import message
from labbook.model.run import Run
from labbook.model.signals import Signals

_FEWEST = 3
_SHORTEST = 8
_MOSTLY, _USED = 0.5, 0.8
_RECURRENT = ("RNN", "LSTM", "GRU", "SimpleRNN", "LSTMCell", "GRUCell", "RNNCell")
"""Layers of decoders that attend to the sequence of the encoder, which may be as long as their own."""
_HIDDEN = 0.2
"""Share of exact zeros in the weights of an attention; a causal mask makes nearly half so. Source: chosen by us."""


@check("target_shifted_twice", family="data", tier=2, needs=("batches", "losses"))
def target_is_next_token(run: Run, signals: Signals) -> Outcome | None:
    """Whether the only target of a language model is the token after the next one, as where two places shift it.

    Source: chosen by us (tier 2), in every batch inspected. A second loss may be for a head that looks further ahead.
    """
    path = sequence_ahead(signals, 2)
    losses = training_losses(signals)
    if not path or len(losses) != 1:
        return None
    line = losses[0].get("line", "")
    observed = message("health.target_shifted_twice.ahead", path=path)
    return Outcome("warn", observed, called_in_sentence(line), place_of(line))


@check("padding_idx_of_token", family="data", tier=2, needs=("batches", "models"))
def padding_row_is_spare(run: Run, signals: Signals) -> Outcome | None:
    """Whether `padding_idx` of an embedding is the number of a real token, whose vector then stays 0.

    Source: chosen by us (tier 2), see `real_paddings`. A warning where that token is to be predicted, too; else a hint:
    a vector of 0 may be meant for a missing category or an empty square, and the model still tells it from others.
    """
    found = real_paddings(signals)
    if not found:
        return None
    is_predicted = bool(sequence_ahead(signals, 1)) and not any(
        loss.get("ignored") for loss in training_losses(signals)
    )
    observed = message("health.padding_idx_of_token.inside", index=min(found), share=found[min(found)])
    return Outcome("warn" if is_predicted else "note", observed)


def real_paddings(signals: Signals) -> dict[int, float]:
    """Returns each `padding_idx` that is a real token, and its share of the tokens.

    Source: chosen by us, in at least 3 looks and all of them: over 80 % of the words of the table occur, and nothing is
    padded; that token is at least half as frequent as the others, and over half of it lies alone between two others,
    in no look under a quarter.
    """
    found: dict[int, float] = {}
    tables: dict[int, set[float | None]] = {}
    for module in modules_of(signals):
        if (words := module.options.get("num_embeddings")) is not None:
            tables.setdefault(int(words), set()).add(module.options.get("padding_idx"))
    for looks in input_leaves(signals).values():
        tokens = [tokens for _, _, leaf in looks if (tokens := leaf.get("tokens")) is not None]
        for words, pads in tables.items():
            pad = next(iter(pads)) if len(pads) == 1 else None
            rows = [_find_token(one, pad, words) for one in tokens]
            seen = [row for row in rows if row is not None]
            if len(seen) < max(_FEWEST, len(rows)) or pad is None:
                continue
            share, alone = mean(row[0] for row in seen), [row[1] for row in seen]
            if share >= _MOSTLY / words and mean(alone) >= _MOSTLY and min(alone) >= _MOSTLY / 2:
                found[int(pad)] = share
    return found


def _find_token(tokens: Tokens, token: float | None, words: int) -> tuple[float, float] | None:
    """Share of a token and how much of it lies between others, where nothing is padded and most words occur."""
    top = tokens.get("top", [])
    if tokens.get("pad") is not None or tokens.get("ids", 0) < _USED * words or max(at for at, _ in top) >= words:
        return None
    pairs = zip(top, tokens.get("inside", []), strict=False)
    return next(((share, inside) for (at, share), inside in pairs if at == token), None)


def sequence_ahead(signals: Signals, ahead: int, *, alone: bool = True) -> str:
    """Returns the path of the sequence that a model is given, which the target is `ahead` of; else "".

    The target may be given to the model as well, and masks of 0 and 1.

    Args:
        alone: Whether it has to be the only one; else it may be the input of a decoder, beside that of an encoder.
    """
    batches = [b for b in signals.batches if b.get("phase") == "train" and b.get("leaves")]
    found: set[str] = set()
    for batch in batches:
        leaves = [leaf for leaf in batch.get("leaves", []) if leaf.get("role") == "input"]
        tokens = [e for e in leaves if _is_sequence(e, ahead)]
        paths = [e.get("path", "") for e in tokens if e.get("ahead") == ahead]
        if not paths or (alone and (paths[0] != tokens[0].get("path") or any(e.get("ahead") is None for e in tokens))):
            return ""
        found.add(paths[0])
    return found.pop() if len(batches) >= _FEWEST and len(found) == 1 else ""


def _is_sequence(leaf: Leaf, ahead: int) -> bool:
    """Whether an input is a batch of sequences of ids, and no mask, or of real values that the target is ahead of."""
    return _is_tokens(leaf) if leaf.get("integer") else ahead > 0 and leaf.get("ahead") == ahead


def read_both_ways(signals: Signals) -> tuple[Module, str] | None:
    """Returns a recurrent layer of both directions over the sequence that the target is the next value of."""
    path = sequence_ahead(signals, 1)
    lengths = {leaf.get("shape", (0, 0))[1] for _, _, leaf in input_leaves(signals).get(path, [])} if path else set()
    for module in modules_of(signals):
        shapes = [form.get("shape", ()) for form in module.facts.get("input", [])[:1]]
        over = any(len(shape) == 3 and lengths & set(shape[:2]) for shape in shapes)
        single = {step for step in module.facts.get("steps_read", []) if step >= 0}
        if over and module.options.get("bidirectional") and not single:
            return module, path
    return None


@check("attention_sees_target", family="loop-bug", tier=1, needs=("batches", "tensors"))
def attention_is_causal(run: Run, signals: Signals) -> Outcome | None:
    """Whether attention of a model that predicts the next token hides nothing, so that it reads what it predicts.

    Source: a logical invariant (tier 1) over at least 3 looks: the target is the input one token later, and no
    attention over that sequence has a mask or, as its softmax shows, zeros; or they begin after the next token. The
    sequence may be the input of a decoder.
    """
    path = sequence_ahead(signals, 1)
    if not path and not any(module.type in _RECURRENT for module in modules_of(signals)):
        path = sequence_ahead(signals, 1, alone=False)
    lengths = (
        {n for _, _, leaf in input_leaves(signals).get(path, []) for n in leaf.get("shape", ())} if path else set()
    )
    open_looks = 0
    masked_looks = 0
    ahead: list[int] = []
    for event in signals.tensors:
        rows = [row for row in event.get("functions", []) if row.get("fn") in ("softmax", "attention")]
        softmax = {m.number for m in modules_of(signals) if m.type == "Softmax" and m.model == event.get("model", 0)}
        looks = [*rows, *(row for row in event.get("modules", []) if row.get("i") in softmax)]
        square = [look for look in looks if is_over_sequence(look, lengths)]
        forms = [row for row in rows if is_over_sequence(row, lengths)]
        ahead += [seen for row in forms if (seen := row.get("ahead")) is not None]
        hidden = any(look.get("masked") or (look.get("zero") or 0.0) > _HIDDEN for look in square)
        # Not every softmax gives exactly 0 for a score of minus a billion.
        hidden = hidden or any((row.get("hidden") or 0.0) > _HIDDEN for row in forms)
        masked_looks += hidden
        open_looks += bool(square) and not hidden
    if len(ahead) >= _FEWEST and min(ahead) > 0:
        return Outcome("fail", message("health.attention_sees_target.ahead", path=path, tokens=min(ahead)))
    if masked_looks:
        return Outcome("ok", message("health.attention_sees_target.ok"))
    if open_looks < _FEWEST:
        return None
    return Outcome("fail", message("health.attention_sees_target.open", path=path))


def is_over_sequence(look: FunctionInspection | ModuleInspection, lengths: set[int]) -> bool:
    """Whether these are the weights of an attention over a sequence of one of these lengths, or one token shorter."""
    form = look.get("shape", ())
    return len(form) >= 2 and form[-1] == form[-2] >= _SHORTEST and bool({form[-1], form[-1] + 1} & lengths)


def decoder_input(signals: Signals) -> str:
    """Returns the path of a sequence that is the target itself, beside another sequence; "" where there is none.

    A lookup table was given exactly its ids: labels that a model takes to compute its loss are not looked up.
    """
    looked_up = {
        (event.get("step", 0), *row["ids"])
        for event in signals.tensors
        for row in event.get("modules", [])
        if row.get("ids")
    }
    inputs = input_leaves(signals).items()
    sequences = {path: looks for path, looks in inputs if all(_is_tokens(leaf) for _, _, leaf in looks)}
    for path, looks in sequences.items() if len(sequences) > 1 else ():
        same = [
            (step, leaf.get("min"), leaf.get("max"), math.prod(leaf.get("shape", ())))
            for step, _, leaf in looks
            if leaf.get("ahead") == 0
        ]
        others = [leaf for other in sequences if other != path for _, _, leaf in sequences[other]]
        related = any(leaf.get("ahead") is not None for leaf in others)
        if len(same) == len(looks) and not related and len(looked_up.intersection(same)) >= _FEWEST:
            return path
    return ""


def _is_tokens(leaf: Leaf) -> bool:
    """Whether an input is a batch of sequences of ids, and no mask."""
    return bool(leaf.get("integer")) and len(leaf.get("shape", ())) == 2 and (leaf.get("max") or 0) > 1


@check("kv_cache_wrong", family="loop-bug", tier=1, needs=("evaluations",))
def cache_goes_on(run: Run, signals: Signals) -> Outcome | None:
    """Whether tokens that are generated one by one are joined to a cache in another order, or without the last token.

    Source: a logical invariant (tier 1), bitwise, for at least 3 tokens and no other change of that cache.
    """
    rows = [row for phase in signals.evaluations for row in phase.get("caches", [])]
    for row in rows:
        always = not row.get("kept") and not row.get("other")
        moved, lost = (row.get("moved", 0), row.get("lost", 0)) if always else (0, 0)
        if moved >= _FEWEST:
            observed = message("health.kv_cache_wrong.moved", tokens=moved)
        elif lost >= _FEWEST:
            observed = message("health.kv_cache_wrong.lost", tokens=lost)
        else:
            continue
        return Outcome("warn", observed, called_in_sentence(row.get("line", "")), place_of(row.get("line", "")))
    kept = sum(row.get("kept", 0) for row in rows)
    return Outcome("ok", message("health.kv_cache_wrong.kept", joins=kept)) if kept else None


@check("cached_positions_wrong", family="loop-bug", tier=2, needs=("evaluations",))
def positions_go_on_after_prompt(run: Run, signals: Signals) -> Outcome | None:
    """Whether tokens that are generated from a cache have positions that do not follow those of the prompt.

    Source: a logical invariant; tier 2, over at least 3 tokens of a phase: the same distance, or the same position.
    """
    names = {(module.model, module.number): module.label for module in modules_of(signals)}
    for phase in signals.evaluations:
        offsets: dict[tuple[int, int], list[int]] = {}
        for model, number, offset in phase.get("positions", []):
            offsets.setdefault((model, number), []).append(offset)
        for place, found in offsets.items():
            if len(found) < _FEWEST or place not in names:
                continue
            steps = {later - one for one, later in pairwise(found)}
            values = {"layer": names[place], "tokens": len(found)}
            if steps == {0} and found[0]:
                observed = message("health.cached_positions_wrong.shifted", **values, offset=found[0])
                return Outcome("warn", observed)
            if steps == {-1}:
                return Outcome("warn", message("health.cached_positions_wrong.same", **values))
    return None
