"""The schema of the events that the probe writes: a `TypedDict` for each kind.

Start with `KINDS`: it names the type of each kind. `store/event_reader.py` reads a line of a journal by these types,
once: a field that does not fit its type, or has none here, is dropped, and every reader above uses the rest without
further checks. Any field may be missing: journals of other versions of the probe are read, too. A null of the probe
("not known") is a missing field, unless the type names `None`.

`process_kinds` holds what any Python process writes, `training_kinds` steps and losses, `loop_kinds` the totals of a
loop, `inspection_kinds` models and tensors, `data_kinds` batches and memory, `request_kinds` results that the user
asked for. `field_types` has the types that limit a value. What a field means beyond its type is documented in
`probe/events/protocol.py`, next to the name of its kind. A kind or a field is added there, here, and in the code of the
probe that writes it; `tests/model/test_model_events.py` compares the three.
"""

from __future__ import annotations

from collections.abc import Mapping

from labbook.model.events import data_kinds, inspection_kinds, loop_kinds, process_kinds, request_kinds, training_kinds
from labbook.model.events.process_kinds import Event

KINDS: Mapping[str, type[Event]] = {
    "hello": process_kinds.Hello,
    "arguments": process_kinds.Arguments,
    "config": process_kinds.Config,
    "files": process_kinds.Files,
    "sources": process_kinds.Sources,
    "exception": process_kinds.UncaughtException,
    "child_died": process_kinds.ChildDied,
    "stacks": process_kinds.Stacks,
    "warning": process_kinds.PythonWarning,
    "note": process_kinds.Note,
    "keep": request_kinds.Keep,
    "trial": process_kinds.Trial,
    "unobserved": process_kinds.UnobservedSignal,
    "probe_error": process_kinds.ProbeError,
    "spawned": process_kinds.SpawnedProcess,
    "bye": process_kinds.Bye,
    "framework": training_kinds.FrameworkImported,
    "state": training_kinds.State,
    "optimizer": training_kinds.Optimizer,
    "step": training_kinds.Step,
    "scalars": training_kinds.Scalars,
    "loss_call": training_kinds.LossCall,
    "evaluation": training_kinds.Evaluation,
    "loop": loop_kinds.Loop,
    "batch": data_kinds.Batch,
    "prints": data_kinds.Prints,
    "loader": data_kinds.Loader,
    "memory": data_kinds.Memory,
    "model": inspection_kinds.Model,
    "tensors": inspection_kinds.Tensors,
    "loaded": inspection_kinds.LoadedState,
    "graph": inspection_kinds.Graph,
    "flight": inspection_kinds.Flight,
    "moment": request_kinds.Moment,
    "watched": request_kinds.WatchResult,
    "stopped": request_kinds.StopResult,
    "profile": request_kinds.Profile,
    "checked": request_kinds.CheckReport,
}
"""Name of a kind -> the type of its events."""

KIND_NAMES: Mapping[type[Event], str] = {kind: name for name, kind in KINDS.items()}
