"""Writes a notebook of invented runs, as large as wanted, always the same for the same seed."""

from __future__ import annotations

import random
import time
from pathlib import Path

from labbook.store.paths import NotebookPaths
from labbook.store.text.frontmatter import emit

_EXPERIMENTS = (
    "exp001_digits-cnn_dynamic",
    "exp002_cifar-resnet_dynamic",
    "exp003_translation_compiled",
    "exp004_ocr_static",
)
_FAILURES = (  # symptom, title, last line of the console, family
    (
        "loss_printed_nan",
        "loss is NaN since step {}",
        "RuntimeError: Function 'LogBackward0' returned nan values",
        "nan_or_inf",
    ),
    (
        "cuda_out_of_memory",
        "CUDA out of memory at step {}",
        "torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB",
        "cuda_oom",
    ),
    (
        "shape_mismatch_linear",
        "shapes cannot be multiplied",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied",
        "shape_mismatch",
    ),
    (
        "dataloader_worker_killed",
        "a data loader worker was killed",
        "RuntimeError: DataLoader worker killed by signal: Killed",
        "dataloader_worker_died",
    ),
)
_REMARKS = (
    "梯度爆炸以后损失变成 NaN，把学习率降低十倍就好了。",
    "The gradient exploded after the warm-up; a tenth of the learning rate cured it.",
    "显存不足，批大小改成 32 就能训练。",
    "Looks converged, accuracy does not move any more.",
    "验证准确率比上周高一个点，可能是数据增强的原因。",
    "",
)
_AUTHORS = ("Wei", "Ines", "张敏", "Tom")
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"


def write_notes(root: Path, count: int, *, seed: int = 0, now: float | None = None, gap_s: float = 1500.0) -> list[str]:
    """Writes `count` entries below `root/notes/runs`, the last one at `now`; returns their ids, oldest first."""
    rng = random.Random(seed)
    now = time.time() if now is None else now
    paths = NotebookPaths(root)
    ids: list[str] = []
    for number in range(count):
        started = now - (count - number) * gap_s
        run_id = time.strftime("%Y%m%d-%H%M%S-", time.gmtime(started)) + "".join(rng.choices(_ALPHABET, k=4))
        path = paths.entry(run_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_entry(rng, run_id, started, ids[-1] if ids else ""), "utf-8")
        ids.append(run_id)
    return ids


def _entry(rng: random.Random, run_id: str, started: float, previous: str) -> str:
    failure = rng.choice(_FAILURES) if rng.random() < 0.25 else None
    steps = rng.randint(50, 5000)
    best = rng.random()
    title = f"train.py: {failure[1].format(steps)}" if failure else f"train.py: loss {best:.3f} after {steps} steps"
    framework = rng.choice(("torch 2.13.0", "paddle 3.3.1"))
    loss = {
        "first": round(best * 3, 4),
        "best": round(best, 4),
        "last": "nan" if failure else round(best * 1.1, 4),
        "steps": steps,
    }
    meta = {
        "schema": 1,
        "id": run_id,
        "title": title,
        "experiment": rng.choice(_EXPERIMENTS),
        "status": "failed" if failure else rng.choice(("finished",) * 9 + ("interrupted",)),
        "exit_code": 1 if failure else 0,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "duration_s": round(rng.uniform(5, 20000), 1),
        "command": f"python train.py --lr {rng.choice(('0.1', '0.01', '3.0'))} --batch-size {rng.choice((16, 32, 64))}",
        "script": "train.py",
        "frameworks": [framework],
        "mode": rng.choice(("dynamic", "compiled")),
        "host": f"gpu-{rng.randint(1, 12):02d}",
        "author": rng.choice(_AUTHORS),
        "tags": [framework.split()[0]],
        "symptoms": [failure[0]] if failure else [],
        "families": [failure[3]] if failure else [],
        "fingerprints": [f"v1:{rng.randrange(400):016x}"] if failure else [],
        "fix": previous if failure and rng.random() < 0.3 else None,
        "fix_text": "--lr 3.0 → 0.1" if failure else None,
        "metrics": {
            "loss": loss,
            "accuracy": {"first": 0.1, "best": round(1 - best / 2, 4), "last": 0.8, "steps": steps},
        },
        "code": {"commit": f"{rng.getrandbits(160):040x}", "dirty": rng.random() < 0.4, "branch": "main"},
        "previous": previous,
        "probe": {"status": "ok", "overhead_fraction": 0.006},
    }
    rows = "\n".join(
        f"| layers.{i}.weight | [64, 3, 224, 224] -> [64, {i}] | {rng.randint(1, 99999)} |" for i in range(12)
    )
    console = "\n".join(f"epoch {i} loss={rng.random():.4f} acc={rng.random():.4f} lr=0.1" for i in range(30))
    if failure:
        console += f'\nTraceback (most recent call last):\n  File "train.py", line 88, in <module>\n{failure[2]}'
    return (
        f"{emit(meta)}\n# {title}\n\n**{meta['status']}** after {meta['duration_s']} s · {framework}, CPU\n\n"
        f"## Goal\n\n## Model\n\n| module | input -> output | parameters |\n|---|---|---|\n{rows}\n\n"
        f"## Console\n\n<details><summary>the last lines</summary>\n\n```text\n{console}\n```\n\n</details>\n\n"
        f"## Observations\n\n{rng.choice(_REMARKS)}\n\n## Conclusion\n\n## Next steps\n"
    )
