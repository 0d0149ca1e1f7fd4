"""The section of an entry on the environment of a run and its reproducibility."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from labbook.model.run import Facts, Framework, Run
from labbook.model.seed_names import describe_seeds
from labbook.report import numbers
from labbook.report.entry.section_limits import Limits, shorten_middle
from labbook.store.text.sentences import Sentences, translate

_MATTER = [
    "torch", "torchvision", "torchaudio", "paddlepaddle", "paddlepaddle-gpu", "numpy", "scipy", "pandas",
    "scikit-learn", "transformers", "datasets", "accelerate", "lightning", "pytorch-lightning", "timm", "mmengine",
    "mmcv", "ultralytics", "deepspeed", "peft", "tokenizers", "safetensors", "triton", "xformers", "flash-attn",
    "bitsandbytes", "paddlenlp", "paddledet", "paddleclas", "paddleocr", "paddleseg", "visualdl", "tensorboard",
    "wandb", "mlflow", "hydra-core", "omegaconf", "einops", "opencv-python", "pillow", "albumentations",
    "tensorflow", "keras", "jax", "jaxlib", "ray",
]  # fmt: skip
"""Packages that affect results though the program may not import them itself; `environment.txt` has all packages.

Source: chosen by us; the packages that the frameworks ask for in bug reports, and those that examples import most.
"""


_BUILD = {
    "cuda": "capture.build.cuda",
    "cudnn": "capture.build.cudnn",
    "hip": "capture.build.hip",
    "driver": "capture.build.driver",
    "threads": "capture.build.threads",
    "debug": "capture.build.debug",
}


def environment_section(run: Run, limits: Limits, say: Sentences) -> dict[str, Any] | None:
    """Returns interpreter, frameworks, devices, machine, seeds and reproducibility, or `None`."""
    rows = [*_python_rows(run), *_framework_rows(run, say), *_machine_rows(run, limits, say), *_seed_rows(run)]
    python, verdict = run.facts("python"), run.facts("reproducibility")
    if not rows and not verdict:
        return None
    files = [str(name) for name in python.get("files") or ()]
    flags = {key: verdict.get(key) for key in ("clean", "locked", "rebuildable")}
    texts = [str(reason) for reason in verdict.get("reasons") or ()]
    reasons = [shorten_middle(text, 3 * limits.cell) for text in translate(texts, verdict.get("reason_messages"), say)]
    return {
        "rows": [{**row, "value": shorten_middle(row["value"], 3 * limits.cell)} for row in rows],
        "verdict": {**flags, "reasons": reasons[:12]} if verdict else None,
        "packages": python.get("count") or len(python.get("packages") or ()),
        "lists": files,
        "folder": run.captured_in,
    }


def _row(what: str, value: object) -> list[dict[str, str]]:
    text = str(value).strip() if value not in (None, "", [], {}) else ""
    return [{"what": what, "value": text}] if text else []


def _python_rows(run: Run) -> list[dict[str, str]]:
    python = run.facts("python")
    main = next((p for p in run.processes if p.version), None)
    version = str(python.get("version") or (main.version if main else ""))
    kind = ", ".join(str(k) for k in (python.get("kind"), python.get("conda_env")) if k)
    packages = python.get("packages")
    found = {str(k).lower(): str(v) for k, v in packages.items()} if isinstance(packages, Mapping) else {}
    own = {f.name for f in run.frameworks} | {"paddlepaddle", "paddlepaddle-gpu"}
    used = dict.fromkeys(python.get("imported") or ())
    used |= dict.fromkeys(name for name in _MATTER if name in python.get("loaded", found))
    matter = [f"{name} {found[name]}" for name in used if name in found and name not in own]
    return [
        *_row("python", f"{version} ({kind})" if version and kind else version),
        *_row("interpreter", python.get("executable") or (main.executable if main else "")),
        *_row("packages", ", ".join(matter)),
    ]


def _framework_rows(run: Run, say: Sentences) -> list[dict[str, str]]:
    rows = []
    for framework in run.frameworks:
        build = ", ".join(say.line(key, value=str(value)) for key, value in _build(framework))
        rows += _row("framework", f"{framework.name} {framework.version}" + (f" ({build})" if build else ""))
        devices = framework.state.get("devices") or framework.devices
        devices = [_device(d) for d in devices if isinstance(d, Mapping) and str(d.get("kind")).lower() != "cpu"]
        rows += _row("devices", ", ".join(devices))
    return rows


def _build(framework: Framework) -> list[tuple[str, object]]:
    known = {**framework.build, **{k: framework.state[k] for k in ("cudnn", "threads") if framework.state.get(k)}}
    return [(key, known[name]) for name, key in _BUILD.items() if known.get(name) not in (None, "", False)]


def _device(facts: Facts) -> str:
    name = str(facts.get("name") or facts.get("kind") or "")
    memory = facts.get("memory_bytes")
    return f"{name} ({numbers.size(memory)})" if isinstance(memory, (int, float)) and memory > 0 else name


def _machine_rows(run: Run, limits: Limits, say: Sentences) -> list[dict[str, str]]:
    machine, container = run.facts("hardware"), run.facts("container")
    gpus = machine.get("gpus")
    driver = [str(machine[key]) for key in ("driver",) if machine.get(key)]
    driver += [f"CUDA {machine['cuda_driver']}"] if machine.get("cuda_driver") else []
    system = [str(machine[key]) for key in ("os", "kernel", "libc") if machine.get(key)]
    return [
        *_row("machine", _machine(machine, say)),
        *_row("gpus", ", ".join(_device(g) for g in gpus) if isinstance(gpus, Sequence) else ""),
        *_row("driver", ", ".join(driver)),
        *_row("gpu_note", machine.get("gpu_note")),
        *_row("system", ", ".join(system)),
        *_row("container", shorten_middle(_container(container), 2 * limits.cell)),
        *_row("job", _job(container.get("job"))),
        *_row("locks", _locks(run, say)),
    ]


def _machine(machine: Mapping[str, Any], say: Sentences) -> str:
    cores, memory, limit = machine.get("cores"), machine.get("memory_bytes"), machine.get("memory_limit_bytes")
    parts = [str(machine.get("cpu") or "")]
    parts += [say.line("capture.machine.cores", cores=cores)] if isinstance(cores, (int, float)) else []
    parts += (
        [say.line("capture.machine.memory", size=numbers.size(memory))]
        if isinstance(memory, (int, float)) and memory
        else []
    )
    parts += [say.line("capture.machine.limit", size=numbers.size(limit))] if isinstance(limit, (int, float)) else []
    return ", ".join(part for part in parts if part)


def _container(container: Mapping[str, Any]) -> str:
    if container.get("kind") in (None, "", "none"):
        return ""
    image = container.get("image") or container.get("image_id") or ""
    hints = container.get("image_hints")
    pairs = [f"{k} {v}" for k, v in hints.items()] if isinstance(hints, Mapping) else []
    return ", ".join(str(part) for part in (container["kind"], image, *pairs) if part)


def _job(job: object) -> str:
    return (
        ", ".join(f"{v}" if k == "system" else f"{k} {v}" for k, v in job.items()) if isinstance(job, Mapping) else ""
    )


def _is_declaration(item: Mapping[str, Any]) -> bool:
    """Whether a file only declares what it needs, such as `setup.py`: nothing in it is pinned or was compared."""
    return not (item.get("pins") or item.get("locks") or item.get("matches") is not None)


def _locks(run: Run, say: Sentences) -> str:
    files = run.facts("lockfiles").get("files")
    parts = []
    for item in files if isinstance(files, Sequence) else ():
        if isinstance(item, Mapping) and item.get("path") and not _is_declaration(item):
            path, matches = str(item["path"]), item.get("matches")
            if matches is not None:
                path = (
                    say.line("capture.lock.agrees", file=path) if matches else say.line("capture.lock.other", file=path)
                )
            parts.append(path)
    return ", ".join(parts)


def _seed_rows(run: Run) -> list[dict[str, str]]:
    rows = []
    for framework in run.frameworks:
        seeds, flags = framework.state.get("seeds"), framework.state.get("deterministic")
        if isinstance(seeds, Mapping):
            rows += _row("seeds", ", ".join(describe_seeds(seeds)))
        if isinstance(flags, Mapping):
            rows += _row("determinism", ", ".join(f"{k} {str(v).lower()}" for k, v in flags.items() if v is not None))
    return rows
