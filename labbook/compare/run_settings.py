"""Reads the settings of one run from its `run.json`, as flat names and values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from labbook.capture.launchers import is_python
from labbook.model.run_fields import flatten

_MAX_VALUE = 120

_IGNORED = (
    *("SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "CUDA_CACHE_PATH"),
    *("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "TORCHINDUCTOR_CACHE_DIR"),
    *("SLURMD_NODENAME", "SLURM_NODEID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_ID"),
    *("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "NODE_RANK"),
)
"""Variables that differ in every run, that name the task whose recorder came first, or that change no result."""

INSTALLERS = frozenset({"pip", "wheel", "uv", "labbook"})
"""Packages that do not change what a program computes; `setuptools` does: programs import `pkg_resources`."""

STATES = ("seeds", "device", "mode", "amp", "deterministic", "distributed")
"""Keys of a framework's state that are compared."""


def captured_facts(run: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Returns the facts of a capture source; empty if it had none."""
    captured = run.get("captured")
    facts = captured.get(name) if isinstance(captured, Mapping) else None
    return facts if isinstance(facts, Mapping) and "unavailable" not in facts else {}


def as_recorded(run: Mapping[str, Any], other: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a run without what a rerun adds: its folder and branch are those of the run that it is compared with.

    A rerun runs in a worktree of its own, which is on no branch, and in a rebuilt environment its programs have other
    paths.

    Args:
        run: The `run.json` of a run.
        other: That of the other run; one of the two is a rerun, or nothing is changed.
    """
    here, there = captured_facts(run, "code"), captured_facts(other, "code")
    if not (run.get("rerun_of") or other.get("rerun_of")) or not here or not there:
        return run
    top, original = str(here.get("top") or ""), str(there.get("top") or "")
    moved = run
    if top and original:
        command = run["captured"].get("command")
        if run.get("rerun_of"):
            command = _without_added_folders(command, captured_facts(other, "command"), top, original)
        command = _replace_folder(command, top, original)
        moved = {
            name: _replace_folder(run.get(name), top, original) for name in ("argv", "arguments", "configs", "cwd")
        }
        moved = {**run, **moved, "captured": {**run["captured"], "command": command}}
        here = {**here, "top": original}
    moved = {**moved, "argv": _match_environment(moved, other)}
    return {**moved, "captured": {**moved["captured"], "code": {**here, "branch": there.get("branch")}}}


def _without_added_folders(command: Any, other: Mapping[str, Any], top: str, original: str) -> Any:  # noqa: ANN401
    """Returns the facts of a command without the folders of the worktree that its rerun has put on `PYTHONPATH`."""
    environment = command.get("environment") if isinstance(command, Mapping) else None
    if not isinstance(environment, Mapping) or not environment.get("PYTHONPATH"):
        return command
    known = str((other.get("environment") or {}).get("PYTHONPATH") or "").split(":")
    places = [f"{place}/" for place in str(environment["PYTHONPATH"]).split(":")]
    kept = [p[:-1] for p in places if not p.startswith(f"{top}/") or p.replace(top, original, 1)[:-1] in known]
    rest = {name: value for name, value in environment.items() if name != "PYTHONPATH"}
    return {**command, "environment": {**rest, **({"PYTHONPATH": ":".join(kept)} if kept else {})}}


def _match_environment(run: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Returns the command with programs of the run's environment as those of the other run's environment."""
    here, there = (str(captured_facts(one, "python").get("prefix") or "") for one in (run, other))
    words = [str(word) for word in run.get("argv") or ()]
    if not here or not there or here == there:
        return words
    first = str(next(iter(other.get("argv") or ()), ""))
    if words and "/" in first and all(is_python(PurePosixPath(word).name) for word in (words[0], first)):
        words[0] = first
    return [word.replace(f"{here}/bin/", f"{there}/bin/") for word in words]


def _replace_folder(value: Any, top: str, original: str) -> Any:  # noqa: ANN401 - JSON data
    """Returns JSON data with the paths of a folder as those of another folder."""
    if isinstance(value, str):
        return original if value == top else value.replace(f"{top}/", f"{original}/")
    if isinstance(value, Mapping):
        return {name: _replace_folder(one, top, original) for name, one in value.items()}
    return [_replace_folder(one, top, original) for one in value] if isinstance(value, (list, tuple)) else value


def list_rows(run: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Returns the mappings in a list of the run; empty if there is no list."""
    values = run.get(name)
    return [row for row in values if isinstance(row, Mapping)] if isinstance(values, (list, tuple)) else []


def format_value(value: Any) -> str:  # noqa: ANN401 - JSON data
    """Returns a value for a table: short, a string without quotes."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    text = value if isinstance(value, str) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= _MAX_VALUE else text[: _MAX_VALUE - 1] + "…"


def collect_arguments(run: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options as the program parsed them, with defaults; empty without a parser."""
    values: dict[str, Any] = {}
    for arguments in list_rows(run, "arguments"):
        given = arguments.get("values")
        if isinstance(given, Mapping):
            for name, value in flatten(given):
                if values.get(name) is None:  # an option that was not given, and is set from a file then
                    values[name] = value
    return values


def is_parsed(option: str, known: set[str]) -> bool:
    """Whether a parsed option has this name or a longer one (`-b` for `batch_size`)."""
    bare = option.lstrip("-").replace("-", "_")
    return bare in known or any(name.lstrip("-").startswith(bare) for name in known)


def files_below_top(run: Mapping[str, Any], mode: str) -> set[str]:
    """Returns the files that a run used in one way, relative to the top folder of its code.

    Args:
        mode: "written", "read", or "loaded" of the user's Python files.
    """
    top, cwd = str(captured_facts(run, "code").get("top") or ""), str(run.get("cwd") or "")
    used = [str(row.get("path")) for row in list_rows(run, "files") if row.get("mode") == mode]
    if mode == "loaded":
        used = [str(path) for path in run.get("sources") or ()]
    places = (path if path.startswith(("/", "~")) else f"{cwd}/{path}" for path in used)
    return {place.removeprefix(f"{top}/") for place in places if place.startswith(f"{top}/")}


def files_used(run: Mapping[str, Any]) -> set[str]:
    """Returns the files that a run loaded or read, relative to the top folder of its code; empty if not known."""
    loaded = files_below_top(run, "loaded")
    read = files_below_top(run, "read") | files_below_top(run, "read and written") | config_files(run).keys()
    is_known = loaded or any(path.endswith(".ipynb") for path in read)  # a notebook may load no module of the project
    return loaded | read if is_known else set()


def config_files(run: Mapping[str, Any]) -> dict[str, str]:
    """Returns the text of each configuration file, by its path below the top folder of the code or the working folder.

    Checkouts of the same project in different folders have the same files.
    """
    folders = (captured_facts(run, "code").get("top"), run.get("cwd"))
    inside = [f"{str(folder).rstrip('/')}/" for folder in folders if folder]
    texts = {}
    for row in list_rows(run, "configs"):
        path = str(row.get("path"))
        folder = next((folder for folder in inside if path.startswith(folder)), "")
        texts[path.removeprefix(folder)] = str(row.get("text") or "")
    return texts


SIZE_UNKNOWN = "size unknown"


def describe_file(row: Mapping[str, Any]) -> str:
    """Returns size, number of files and the beginning of the fingerprint of a file in words."""
    size = row.get("size_bytes")
    count = int(row.get("members") or 1)
    text = f"{size:,} bytes" if isinstance(size, int) and size >= 0 else SIZE_UNKNOWN
    text = f"{count:,} files, {text}" if count > 1 else text
    kind, _, digest = str(row.get("fingerprint") or "").partition(":")
    return f"{text}, {kind} {digest[:8]}" if digest else text


def environment_variables(run: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the environment variables to compare; `None` if none were captured."""
    side = captured_facts(run, "command").get("environment")
    return {n: v for n, v in side.items() if n not in _IGNORED} if isinstance(side, Mapping) else None


def machine_facts(run: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the facts of the machine and the container to compare."""
    facts = captured_facts(run, "hardware")
    names = [str(gpu.get("name")) for gpu in facts.get("gpus") or () if isinstance(gpu, Mapping)]
    side = {key: facts[key] for key in ("cpu", "cores", "driver", "os") if facts.get(key)}
    memory = facts.get("memory_limit_bytes") or facts.get("memory_bytes")
    if isinstance(memory, int):
        side["memory"] = f"{memory / 2**30:.1f} GiB"
    if facts:
        side["gpus"] = ", ".join(f"{names.count(n)} x {n}" for n in dict.fromkeys(names)) or "none"
        side["host"] = str(run.get("host") or "")
    container = captured_facts(run, "container")
    if container:
        side["container"] = str(container.get("image") or container.get("kind") or "")
        if container.get("image_id"):
            side["image id"] = str(container["image_id"])
    return side
