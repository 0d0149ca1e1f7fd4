"""Writes a notebook of 150 mixed runs: healthy ones whose checklists name faults, and failures of many kinds.

The pages of the catalogue give names of checks, titles, advice and messages, so no failure is spelled out here.
"""

from __future__ import annotations

import random
import time
from collections.abc import Collection
from pathlib import Path

from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.model.symptom import Symptom
from labbook.store.paths import NotebookPaths
from labbook.store.text.entry_text import block
from labbook.store.text.frontmatter import emit

RUNS = 150
FAILING = 0.55
FIXED = 0.5
_SCRIPTS = ("train.py", "main.py", "finetune.py", "tools/train.py", "pretrain_lm.py", "train_ocr.py")
_EXPERIMENTS = ("exp001_digits-cnn", "exp002_cifar-resnet", "exp003_translation", "exp004_ocr", "exp005_gan")
_MODELS = ("ResNet18", "TransformerEncoder", "UNet", "CRNN", "LSTMTagger", "DCGAN")
_FIXES = ("--lr 3.0 → 0.1", "one line of model.py", "batch_size: 256 → 32", "model.py:18", "data.py: +3 -1 lines")
_LOGGED = (
    "epoch {i}: loss={loss:.4f} val_acc={acc:.3f} oom False nan 0 overflow False",
    "[{i}/30] train loss {loss:.4f} | val loss {loss:.3f} | lr 1.0e-03 | grad norm 1.2",
    "step {i} 损失 {loss:.4f} 准确率 {acc:.3f} 学习率 0.001",
)
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"


def write_mixed_notebook(
    root: Path, common: Collection[str] = (), *, seed: int = 7, now: float | None = None
) -> list[str]:
    """Writes the runs below `root/notes/runs`, a third of them in Chinese, and returns their ids, oldest first.

    Args:
        root: Folder of the notebook.
        common: Symptoms that are three times as frequent as the others.
        seed: Seed of everything that is drawn.
        now: End of the last run, Unix seconds; now by default.
    """
    rng = random.Random(seed)
    (root / "labbook.toml").write_text('title = "Mixed runs"\ncommit = "off"\n', "utf-8")
    symptoms = load_catalogue().symptoms
    kinds = sorted(name for name, one in symptoms.items() if one.severity != "note")
    kinds += [name for name in kinds if name in common] * 2
    now = time.time() if now is None else now
    paths = NotebookPaths(root)
    ids: list[str] = []
    for number in range(RUNS):
        started = now - (RUNS - number) * 5000.0
        run_id = time.strftime("%Y%m%d-%H%M%S-", time.gmtime(started)) + "".join(rng.choices(_ALPHABET, k=4))
        kind = symptoms[rng.choice(kinds)] if rng.random() < FAILING else None
        path = paths.entry(run_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        language = rng.choice(("en", "en", "zh"))
        path.write_text(_entry(rng, run_id, started, kind, symptoms, language, ids[-1:] or [""]), "utf-8")
        ids.append(run_id)
    return ids


def _entry(
    rng: random.Random,
    run_id: str,
    started: float,
    kind: Symptom | None,
    symptoms: dict[str, Symptom],
    language: str,
    before: list[str],
) -> str:
    script, framework = rng.choice(_SCRIPTS), rng.choice(("torch 2.13.0", "torch 2.6.0", "paddle 3.3.1"))
    crashed = kind is not None and any(p.kind == "exception" for p in kind.patterns)
    loss, fixed = rng.uniform(0.05, 2.0), kind is not None and rng.random() < FIXED
    params = {
        "lr": rng.choice((3.0, 0.1, 0.01, 0.001)),
        "batch_size": rng.choice((16, 32, 64)),
        "optimizer": rng.choice(("adamw", "sgd", "lamb")),
        "dropout": rng.choice((0.0, 0.1)),
        "label_smoothing": rng.choice((0.0, 0.1)),
        "checkpoint": rng.choice(("last.pt", "best.pt")),
    }
    wording = kind.wording_in(language) if kind else None
    title = f"{script}: {wording.title.replace('`', '')}" if wording else f"{script}: finished, loss 2.31 → {loss:.4f}"
    meta = {
        "schema": 1,
        "id": run_id,
        "title": title,
        "experiment": rng.choice(_EXPERIMENTS),
        "status": "failed" if crashed else "finished",
        "exit_code": int(crashed),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "duration_s": round(rng.uniform(5, 20000), 1),
        "command": f"python {script} " + " ".join(f"--{k.replace('_', '-')} {v}" for k, v in params.items()),
        "frameworks": [framework],
        "host": f"gpu-{rng.randint(1, 9):02d}",
        "author": rng.choice(("Wei", "Ines", "张敏")),
        "tags": [framework.split()[0], *(["sweep"] if rng.random() < 0.2 else [])],
        "symptoms": [kind.id] if kind else [],
        "families": [kind.family] if kind else [],
        "fingerprints": [],
        "fix": (before[0] or "changed the code") if fixed else None,
        "fix_text": rng.choice(_FIXES) if fixed else None,
        "params": params,
        "metrics": {
            "loss": {"first": 2.31, "best": round(loss, 4), "last": round(loss * 1.1, 4), "steps": 500},
            "val_acc": {"first": 0.1, "best": round(1 - loss / 3, 3), "last": round(0.9 - loss / 3, 3), "steps": 5},
        },
    }
    console = "\n".join(rng.choice(_LOGGED).format(i=i, loss=loss * 30 / (i + 1), acc=rng.random()) for i in range(20))
    if kind and kind.matches:
        console += f"\n{kind.matches[0].text}"
    parts = [block("title", f"# {title}\n\n**{meta['status']}** · {framework}, CPU")]
    if wording and kind:
        parts.append(block("diagnosis", _diagnosis(kind, wording.title, wording.why, wording.attempts)))
    parts.append("\n## Goal\n")
    parts.append(block("health", _checklist(rng, kind, symptoms, language)))
    parts.append(block("model", f"## Model\n\n| model | {rng.choice(_MODELS)} |\n|---|---|\n| optimizer | SGD |"))
    parts.append(block("console", f"## Console\n\n```text\n{console}\n```"))
    options = "\n".join(f"| {name} | {value} |" for name, value in params.items())
    parts.append(block("configuration", f"## Configuration\n\n| option | value |\n|---|---|\n{options}"))
    parts.append("\n## Observations\n\n## Conclusion\n\n## Next steps\n")
    return f"{emit(meta)}\n" + "\n".join(parts)


def _diagnosis(kind: Symptom, title: str, why: tuple[str, ...], attempts: tuple[str, ...]) -> str:
    fixes = "\n".join(f"    {n}. {text}" for n, text in enumerate(attempts, 1))
    return f"## Diagnosis\n\n### {title} (`{kind.id}`)\n\n- **Why.** {' '.join(why)}\n- **Try.**\n{fixes}"


def _checklist(rng: random.Random, kind: Symptom | None, symptoms: dict[str, Symptom], language: str) -> str:
    """Returns the table of 40 checks: ok, not observed, and the one of the failure."""
    checks = [one for one in symptoms.values() if one.wording_in(language).check]
    ok, unobserved = {"en": ("ok", "not observed"), "zh": ("正常", "未观察到")}[language]
    rows = []
    for one in rng.sample(checks, min(40, len(checks))):
        said = one.wording_in(language)
        verdict = ok if rng.random() < 0.7 else unobserved
        if one is not kind:
            rows.append(f"| {said.check} | {said.expected} | {verdict} {said.title} | {verdict} |")
    if kind is not None and kind.wording_in(language).check:
        rows.append(
            f"| {kind.wording_in(language).check} | {kind.wording_in(language).expected} | seen at step 12 | fail |"
        )
    rows_text = "\n".join(rows)
    return f"## Health checklist\n\n| check | expected | observed | verdict |\n|---|---|---|---|\n{rows_text}"
