"""What is not the same on all ranks of a job: its code, its environment, the versions that it loaded. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from labbook.model.events.data_kinds import Batch
from labbook.model.events.process_kinds import Sources
from labbook.model.events.training_kinds import FrameworkImported, State
from labbook.store.journal import ProcessEvents

Known = tuple[str, str]
"""What a rank has, for the comparison, and how it is shown."""

_MOST = 12
SHOWN_COMMIT = 12
_NOTHING = "-"
_FEWEST_BATCHES = 3
"""Batches of one size before it is the usual one. Source: chosen by us."""

_OF_A_RANK = ("SLURM_", "TORCHELASTIC_", "PADDLE_", "FLAGS_selected", "PYTHONPATH")
_OF_A_RANK_ENDINGS = ("RANK", "VISIBLE_DEVICES")
"""How variables begin or end in which a launcher says which rank it starts; `sys.path` shows `PYTHONPATH`."""


def rank_differences(by_rank: Mapping[int, ProcessEvents], commits: Mapping[int, str]) -> list[dict[str, Any]]:
    """Returns what is not the same on all ranks: `what`, and `values`: value -> ranks.

    Ranks of which a fact is unknown are left out: one that was killed did not write what it had loaded.

    Args:
        by_rank: The process of each rank.
        commits: The commit that was checked out where the recorder of a rank ran.
    """
    paths = [set(process.hello.get("sys_path", [])) for process in by_rank.values()]
    common = set.intersection(*paths) if paths else set()
    names = {name for process in by_rank.values() for name in _variables(process) if not is_of_a_rank(name)}
    return compare_ranks({
        rank: dict(_facts(process, commits.get(rank, ""), common, sorted(names)))
        for rank, process in sorted(by_rank.items())
    })  # fmt: skip


def compare_ranks(facts: Mapping[int, Mapping[str, Known]]) -> list[dict[str, Any]]:
    """Returns the facts that are not the same on all ranks that have them, as `rank_differences` does."""
    found = []
    for what in dict.fromkeys(what for known in facts.values() for what in known):
        having = {rank: known[what] for rank, known in facts.items() if known.get(what, ("", ""))[0]}
        shown: dict[str, str] = {}
        for compared, text in having.values():
            shown.setdefault(compared, text)
        if len(shown) > 1:
            values = {text: [rank for rank, one in having.items() if one[0] == key] for key, text in shown.items()}
            found.append({"what": what, "values": values})
    return found[:_MOST]


def _facts(
    process: ProcessEvents, commit: str, common_paths: set[str], variables: Sequence[str]
) -> Iterator[tuple[str, Known]]:
    yield "commit", (commit, commit[:SHOWN_COMMIT])
    size = _batch_size(process)
    yield "batch size", (size, size)
    path = ":".join(one for one in process.hello.get("sys_path", []) if one not in common_paths) or _NOTHING
    yield "sys.path", (path, path)
    yield from ((name, (value, value)) for name, value in _versions(process).items())
    sources = process.events_of_kind(Sources)
    for name in variables if sources else ():
        value = _variables(process).get(name, _NOTHING)
        yield name, (value, value)
    for name, file, digest in [row for event in sources for row in event.get("modules", []) if len(row) == 3]:
        yield file.rpartition("/")[2] if name == "__main__" else name, (digest, f"{file} ({digest})")


def _batch_size(process: ProcessEvents) -> str:
    """Returns the size of most training batches of a rank; "" if they have no usual size."""
    sizes = Counter(
        event["samples"]
        for event in process.events_of_kind(Batch)
        if event.get("phase") == "train" and event.get("samples")
    )
    size, count = next(iter(sizes.most_common(1)), (0, 0))
    return str(size) if count >= _FEWEST_BATCHES and 2 * count > sizes.total() else ""


def _variables(process: ProcessEvents) -> dict[str, str]:
    return {name: value for e in process.events_of_kind(Sources) for name, value in e.get("allowed", {}).items()}


def _versions(process: ProcessEvents) -> dict[str, str]:
    versions = {name: value for e in process.events_of_kind(Sources) for name, value in e.get("versions", {}).items()}
    versions.update((e.get("name", ""), e.get("version", "")) for e in process.events_of_kind(FrameworkImported))
    device = ", ".join(sorted({name.partition(":")[0] for name in devices_used(process)}))
    return {"Python": process.hello.get("version", ""), **versions, "device": device}


def devices_used(process: ProcessEvents) -> list[str]:
    """Returns the devices on which the parameters of the models of a process were."""
    found = [event.get("device", []) for event in process.events_of_kind(State)]
    return [name for one in found for name in ([one] if isinstance(one, str) else one)]


def is_of_a_rank(name: str) -> bool:
    """Whether the variable is expected to differ between ranks."""
    return name.startswith(_OF_A_RANK) or name.endswith(_OF_A_RANK_ENDINGS)
