"""What a program compares with its best is its main metric, whatever its name."""

import textwrap
from pathlib import Path

import pytest

import labbook
from labbook.capture.metrics_text import metrics_from_console
from labbook.findings.watched_metric import add_watched_goal, add_watched_metric
from labbook.model.run import Run
from labbook.model.series import Series
from labbook.review.watched_values import find_watched_values

LOOP = """for epoch in range(1, 4):
    hq, gap = evaluate()
    print(f'epoch {epoch} | loss {loss:.2f} | gap {gap:.2f} hq {hq:.2f}')
"""
LINES = """epoch 1 | loss 0.90 | gap 0.30 hq 0.40
epoch 2 | loss 0.70 | gap 0.10 hq 0.60
epoch 3 | loss 0.60 | gap 0.20 hq 0.50
"""
STOPPER = """
class Stopper:
    def __init__(self): self.best, self.count = None, 0
    def __call__(self, value):
        score = -value
        if self.best is None: self.best = score
        elif score < self.best: self.count += 1
        else: self.best = score
stopper = Stopper()
"""
HOLDER = """
class Best:
    value = -1.0
    def is_below(self, new): return self.value < new
best = Best()
"""
KEEPER = """
class Keeper:
    def __init__(self, mode="min", patience=3): self.mode, self.best, self.count = mode, None, 0
    def update(self, value):
        better = value < self.best if self.mode == "min" else value > self.best
        if better: self.best = value
        else: self.count += 1
"""
CALLER = """
class Keeper:
    def __init__(self, greater_is_better=False):
        self.best, self.better = None, (lambda a, b: a > b) if greater_is_better else (lambda a, b: a < b)
    def update(self, value):
        if self.best is None or self.better(value, self.best): self.best = value; self.save()
"""


def _run(tmp_path, code, text, *series):
    file = tmp_path / "train.py"
    file.write_text(textwrap.dedent(code), encoding="utf-8")
    run = Run("i", "finished", (), "", 0.0, sources=(str(file),), series=(*series, *metrics_from_console(text)))
    return add_watched_goal(add_watched_metric(run, text))


@pytest.mark.parametrize(
    ("before", "after", "metric", "direction"),
    [
        ("", "    if hq > best:\n        best = hq\n        torch.save(m, p)\n", "hq", "max"),
        ("", "    if best is None or gap < best - 1e-4:\n        best, wait = gap, 0\n", "gap", "min"),
        ("", "    if best['hq'] <= hq:\n        best = {'hq': hq, 'epoch': epoch}\n", "hq", "max"),
        ("", "    better = hq > best\n    if better:\n        best = hq\n", "hq", "max"),
        ("", "    best_hq = max(best_hq, hq)\n", "hq", "max"),
        ("", "    curve.append(gap)\nk = np.argmin(curve)\n", "gap", "min"),
        ("", "    rows.append({'gap': gap, 'hq': hq})\ntop = max(rows, key=lambda row: row['hq'])\n", "hq", "max"),
        ("", "    rows.append({'gap': gap, 'hq': hq})\ntop = sorted(rows, key=lambda r: -r['hq'])[0]\n", "hq", "max"),
        (
            "",
            "    if hq > best['hq']:\n        best.update(hq=hq, epoch=epoch)\n        torch.save(m, p)\n",
            "hq",
            "max",
        ),
        ("", "    kept.append((gap, epoch))\nkept.sort(key=lambda one: one[0])\n", "gap", "min"),
        ("", "    all_hq.append(hq)\n    if all_hq[-1] == max(all_hq):\n        save(model)\n", "hq", "max"),
        ("", "    if best is None or gap < best[0]:\n        best = gap, epoch\n", "gap", "min"),
        ("", "    by_step[epoch] = gap\nk = min(by_step, key=by_step.get)\n", "gap", "min"),
        (HOLDER, "    if best.is_below(hq):\n        best.value, best.at = hq, epoch\n", "hq", "max"),
        (STOPPER, "    stopper(gap)\n", "gap", "min"),
        (STOPPER, "    stopper(-hq)\n", "hq", "max"),
        (f"{KEEPER}keeper = Keeper(mode='max')\n", "    keeper.update(hq)\n", "hq", "max"),
        (f"{KEEPER}keeper = Keeper()\n", "    keeper.update(gap)\n", "gap", "min"),
        (f"{CALLER}keeper = Keeper(greater_is_better=True)\n", "    keeper.update(hq)\n", "hq", "max"),
        (f"{CALLER}keeper = Keeper()\n", "    keeper.update(gap)\n", "gap", "min"),
        (f"{KEEPER}keeper = Keeper(options.mode)\n", "    keeper.update(hq)\n", "hq", ""),
        (
            "from torch.optim.lr_scheduler import ReduceLROnPlateau\nplan = ReduceLROnPlateau(opt, mode='max')\n",
            "    plan.step(hq)\n",
            "hq",
            "max",
        ),
        ("", "print('final gap', gap)\n", "gap", ""),
        (
            "",
            "    wait = 0 if hq > max(seen, default=0) else wait + 1\n    if hq <= max(seen):\n        wait += 1\n",
            "hq",
            "max",
        ),
        ("", "    if epoch > 1 and hq > best and gap < 0.9:\n        best = hq\n", "hq", "max"),
        # What is compared but says nothing of a model, or is no best value.
        ("", "    if loss < 1e-4: break\n    slowest = max(slowest, hq)\n", "", ""),
        ("", "    print(f'{ms:.1f} ms {rate:.0f} samples/s')\n    if rate > best: best = rate\n", "", ""),
        ("", "    print(f'{ms:.1f} ms {v:.0f} it/s')\n    best_v = max(best_v, v)\n", "", ""),
        ("", "    if hq > state.limit:\n        state.last = hq\n", "", ""),
        ("", "    if hq > 3 * usual:\n        skipped += 1\n", "", ""),
    ],
)
def test_what_the_program_compares_with_its_best_is_the_main_metric(tmp_path, before, after, metric, direction):
    run = _run(tmp_path, before + LOOP + after, LINES + "20.5 ms 300 samples/s\n10.5 ms 500 it/s\n")
    assert (run.primary or run.facts("watched").get("metric", ""), run.direction) == (metric, direction)


def test_percents_in_a_line_of_several_values_are_its_values(tmp_path):
    code = """
    for epoch in range(1, 4):
        print(f"epoch {epoch} | acc {acc:.2%} | hq {hq:.1%} | {seconds:.1f}s")
        if hq > best:
            best = hq
            print(f"  saved, hq {best:.1%}")
    """
    text = "epoch 1 | acc 9.10% | hq 40.0% | 1.0s\n  saved, hq 40.0%\nepoch 2 | acc 9.20% | hq 30.0% | 1.0s\n"
    run = _run(tmp_path, code, text)
    found = next(s for s in run.series if s.name == run.primary)
    assert (found.name, found.values, found.steps) == ("hq", (40.0, 30.0), (1, 2))


def test_items_with_the_same_key_are_different_values(tmp_path):
    code = """
    for epoch in range(1, 4):
        print(f"epoch {epoch} train hq {train['hq']:.2f} dev hq {dev['hq']:.2f} mean {meter.avg:.2f}")
        if dev["hq"] > best:
            best = dev["hq"]
    """
    run = _run(tmp_path, code, "".join(f"epoch {n} train hq 0.9{n} dev hq 0.5{n} mean 0.3{n}\n" for n in (1, 2, 3)))
    found = next(s for s in run.series if s.name == run.primary)
    assert (found.name, found.values, run.direction) == ("dev hq", (0.51, 0.52, 0.53), "max")


def test_a_last_line_does_not_take_the_place_of_the_values_of_the_epochs(tmp_path):
    code = "for e in range(3):\n    report(e)\nprint(f'chosen: val_acc={best:.2f}')\n"
    run = _run(tmp_path, code, "".join(f"epoch {n} val_acc=0.{n}5\n" for n in (1, 2, 3)) + "chosen: val_acc=0.35\n")
    assert [s.values[:3] for s in run.series if s.name == "val_acc"] == [(0.15, 0.25, 0.35)]


def test_a_last_line_does_not_take_the_place_of_what_a_trainer_logged(tmp_path):
    code = "trainer = Trainer(callbacks=[EarlyStopping('val_loss')])\nprint('val_loss', trainer.values['val_loss'])\n"
    logged = Series.of_values("val_loss", "lightning", (23, 47, 71), (0.3, 0.2, 0.1), axis="step")
    run = _run(tmp_path, code, "val_loss 0.1\n", logged)
    assert [(s.source, s.values) for s in run.series if s.name == "val_loss"] == [("lightning", (0.3, 0.2, 0.1))]


@pytest.mark.parametrize(
    ("row", "lines"),
    [
        (
            "| {n} | {x:.2f} | {y:.3f} |",
            "| ep | rec | mmd |\n|---|---|---|\n| 0 | 0.50 | 0.300 |\n| 1 | 0.40 | 0.200 |\n",
        ),
        ("{n},{x:.2f},{y:.3f}", "ep,rec,mmd\n0,0.50,0.300\n1,0.40,0.200\n"),
        ("{n}/{x:.2f}/{y:.3f}", "ep/rec/mmd\n0/0.50/0.300\n1/0.40/0.200\n"),
    ],
)
def test_a_value_without_words_has_the_title_of_its_column(tmp_path, row, lines):
    code = f"for n in range(3):\n    print(f'{row}')\n    if y < low: low = y\n"
    run = _run(tmp_path, code, lines)
    assert (run.primary, run.direction) == (("", "") if "/" in row else ("mmd", "min"))


def test_a_key_that_a_loop_prints_is_read_from_lines_that_begin_alike(tmp_path):
    code = "r = evaluate()\nif r['balanced'] > best:\n    best = r['balanced']\n"
    text = "".join(f"  [valid] nll=0.{n}, balanced=0.{n}1\n" for n in (5, 6)) + "  [test] nll=0.2, balanced=0.99\n"
    run = _run(tmp_path, code, text)
    found = next(s for s in run.series if s.name == run.primary)
    assert (found.name, found.values) == ("val/balanced", (0.51, 0.61))


def test_what_a_function_prints_last_in_the_file_is_not_what_the_program_prints_last(tmp_path):
    code = f"{LOOP}def report(hq):\n    print(f'so far {{hq:.2f}}')\nfor n in range(9):\n    report(hq)\n"
    assert not _run(tmp_path, code, LINES + "so far 0.4\nso far 0.5\n").facts("watched")


def test_lines_of_other_statements_are_no_values_of_the_watched_metric(tmp_path):
    code = f"hq, gap = evaluate()\nprint(f'untrained: hq {{hq:.2f}}')\n{LOOP}    if hq > best: best = hq\n"
    code += "print(f'epoch {at}: hq {best:.2f}')\n"
    run = _run(tmp_path, code, f"untrained: hq 0.05\n{LINES}epoch 2: hq 0.60\n")
    found = next(s for s in run.series if s.name == "hq")
    assert (found.steps, found.values, found.axis) == ((1, 2, 3), (0.4, 0.6, 0.5), "epoch")


@pytest.mark.parametrize(
    ("statement", "lines", "name"),
    [
        (
            "print(f'round {i}: mse on expert states {v:.3f}, n {n}')",
            "round {i}: mse on expert states {v}, n 5",
            "mse on expert states",
        ),
        ("print('[%d/%d] SW %.3f' % (i, n, v))", "[{i}/9] SW {v}", "SW"),
        ("print(f'{i:4d} {other:8.3f} {v:8.3f}')", "   {i}    0.100    {v}", "v"),
        ("print('第', i, '轮 车道偏差', v.item(), '米')", "第 {i} 轮 车道偏差 {v} 米", "车道偏差"),
        (
            "print(f'Episode {i}\\tReward: {r:.1f}\\tAverage(10): {v:.2f}')",
            "Episode {i}\tReward: 1.0\tAverage(10): {v}",
            "Average",
        ),
        ("print(f'温差={t:.1f}℃ 超差率={v:.3f}')", "温差=1.5℃ 超差率={v}", "超差率"),
        ("print(f'step={i} task=depth gap={v:.3f}')", "step={i} task=depth gap={v}", "gap"),
        ("print(f'step {i} modes: {i}/8 quality: {v:.3f}')", "step {i} modes: {i}/8 quality: {v}", "quality"),
        ("log.info('step %d sharp: %.3f', i, v)", "2026-01-02 INFO step {i} sharp: {v}", "sharp"),
    ],
)
def test_the_name_and_values_of_a_watched_metric_are_those_of_its_statement(tmp_path, statement, lines, name):
    code = f"for i in range(9):\n    {statement}\n    if v < best:\n        best = v\n        save(dict(v=v))\n"
    text = "".join(lines.format(i=i, v=v) + "\n" for i, v in enumerate(("0.512", "0.250", "0.300")))
    run = _run(tmp_path, code, text)
    found = next(s for s in run.series if s.name == name)
    assert (run.primary, run.direction, found.values) == (name, "min", (0.512, 0.25, 0.3))
    is_placed = found.axis in ("epoch", "step")  # what is counted is known
    assert is_placed == ("第" in lines or "step" in lines)
    assert found.steps == ((0, 1, 2) if is_placed else (1, 2, 3))


def test_a_watched_value_that_is_only_logged_is_found_by_its_key(tmp_path):
    code = (
        "for e in range(3):\n    f.write(json.dumps({'epoch': e, 'dev_cost': c}))\n    if c < low: low = c; save(m)\n"
    )
    run = _run(tmp_path, code, "", Series("dev_cost", "log.jsonl", (0, 1), (2.0, 1.0)))
    assert run.facts("watched") == {"metric": "dev_cost", "direction": "min", "how": 0}


def test_a_training_loss_that_is_watched_does_not_hide_held_out_values(tmp_path):
    code = "for e in range(3):\n    print(f'epoch {e} loss {loss:.2f} val_acc {acc:.2f}')\n"
    code += "    if loss < low: low = loss; save(m)\n"
    text = "".join(f"epoch {e} loss 0.{9 - e}0 val_acc 0.{5 + e}0\n" for e in range(3))
    assert not _run(tmp_path, code, text).facts("watched")


def test_a_name_of_several_words_is_whole(tmp_path):
    code = """
    for epoch in range(3):
        print(f"epoch {epoch}: error on expert states {a:.3f}, fit gap: {b:.3f}, held out gap: {c:.3f}, kd: {d:.3f}")
    """
    lines = "epoch {0}: error on expert states 0.{0}11, fit gap: 0.{0}22, held out gap: 0.{0}33, kd: 0.{0}44\n"
    run = _run(tmp_path, code, "".join(lines.format(n) for n in range(3)))
    assert {s.name for s in run.series} >= {"error on expert states", "kd"}
    assert not {s.name for s in run.series} & {"states", "fit gap"}  # of two gaps it is not known which one is read


def test_any_program_can_be_read():
    folder = Path(labbook.__file__).parent
    files = [*Path(__file__).parents[1].glob("programs/**/*.py"), *folder.glob("probe/*/*.py"), *folder.glob("r*/*.py")]
    for start in range(0, len(files), 20):
        find_watched_values(files[start : start + 20])


@pytest.mark.parametrize("blank", [" ", " | "])
def test_long_lines_of_many_values_are_matched_in_one_way(tmp_path, blank):
    """Tried in all ways, the second kind of line would take years."""
    values = blank.join(f"{{{name}}}" for name in "abcdefgh")
    code = f"""best = 9.0
for epoch in range(4):
    print(f'report {values}{blank}hq {{hq}}')
    if hq < best:
        best = hq
"""
    words = ["one two", "x y", "q w", "a s", "p o", "m n", "h j", "t y"]
    lines = ["report " + blank.join([*words, f"hq {value}"]) for value in (0.9, 0.7, 0.8)]
    noise = [f"report {('hq' + blank) * 80}"[:390]] * 20
    run = _run(tmp_path, code, "\n".join([*lines, *noise]))
    assert [list(s.values) for s in run.series if s.name == "hq"] == [[0.9, 0.7, 0.8]]


def test_the_metric_of_a_training_that_had_ended_is_not_that_of_the_run(tmp_path):
    code = """
    for i in range(3): print(f"teacher epoch {i} test accuracy {acc(teacher):.2f}")
    for i in range(3): print(f"student epoch {i} accuracy {acc(student):.2f} ema accuracy {acc(ema):.2f}")
    print(f"done, accuracy of the student: {acc(ema):.2f}")
    """
    before = [f"teacher epoch {i} test accuracy 0.9{i}\n" for i in range(3)]
    after = [f"student epoch {i} accuracy 0.5{i} ema accuracy 0.4{i}\n" for i in range(3)]
    run = _run(tmp_path, code, "".join([*before, *after, "done, accuracy of the student: 0.42\n"]))
    assert run.primary in ("ema_accuracy", "ema accuracy")


@pytest.mark.parametrize(
    ("first", "second", "values"),
    [("rel()", "rel()", (0.9, 0.5, 0.3, 0.1)), ("rel(teacher)", "rel(student)", (0.3, 0.1))],
)
def test_the_lines_of_two_phases_count_together_where_one_call_gives_both_values(tmp_path, first, second, values):
    code = f"""
    for k in range(2):
        print(f"[adam ] {{k:3d}} gap {{{first}:.1e}}")
    for k in range(2):
        print(f"[lbfgs] {{k:3d}} gap {{{second}:.1e}}")
    print(f"final gap {{{second}:.1e}}")
    """
    text = "[adam ]   0 gap 9.0e-01\n[adam ]   1 gap 5.0e-01\n[lbfgs]   0 gap 3.0e-01\n[lbfgs]   1 gap 1.0e-01\n"
    run = _run(tmp_path, code, text + "final gap 1.0e-01\n")
    assert next(s.values for s in run.series if s.name == "gap") == values


EVALUATED = {
    "in a block": (
        """
        loss = criterion(net(x), y)
        if i % 10 == 0:
            with torch.no_grad():
                loss = criterion(net(all_x), all_y)
                print(f"Iter {i:04d} | Total Loss {loss.item():.4f}")
        """,
        True,
    ),
    "by a function": ("        total = evaluate(net)\n        print(f'Iter {i:04d} | Total Loss {total:.4f}')\n", True),
    "in training": ("        loss = step(net)\n        print(f'Iter {i:04d} | Total Loss {loss:.4f}')\n", False),
    "in training, printed in a block": (
        """
        loss = step(net)
        with torch.no_grad():
            print(f"Iter {i:04d} | Total Loss {loss.item():.4f}")
        """,
        False,
    ),
}


@pytest.mark.parametrize(("body", "is_evaluated"), EVALUATED.values(), ids=EVALUATED)
def test_a_loss_that_is_computed_without_gradients_is_that_of_an_evaluation(tmp_path, body, is_evaluated):
    code = (
        "import torch\n@torch.no_grad()\ndef evaluate(net):\n    return criterion(net(all_x), all_y).item()\n"
        "def step(net):\n    return criterion(net(x), y)\n"
        f"for epoch in range(1):\n    for i in range(0, 30, 10):\n{textwrap.indent(textwrap.dedent(body), ' ' * 8)}"
    )
    text = "Iter 0000 | Total Loss 0.8000\nIter 0010 | Total Loss 0.7000\nIter 0020 | Total Loss 0.6000\n"
    run = add_watched_goal(_run(tmp_path, code, text, Series("loss", "probe", (1, 2, 3), (0.5, 0.4, 0.3))))
    assert (run.primary == "Total_Loss") == is_evaluated
