"""The entry of every kind of run: whole, true, bounded, inert, and people's text stays."""

import dataclasses
import json
import re

import pytest

from labbook.checks.report_to_run import message_texts
from labbook.checks.results import Checklist, Row, Text
from labbook.compare.run_settings import collect_arguments
from labbook.model.run import Arguments, Change, ConfigFile, Console, Run
from labbook.model.run_files import FileUse
from labbook.model.series import Series
from labbook.model.signals import Signals
from labbook.report.entry.entry_page import SECTIONS, entry_markdown
from labbook.report.entry.requests_section import checked_section
from labbook.report.entry.section_limits import MAX_ENTRY_BYTES, Limits
from labbook.store.text import frontmatter
from labbook.store.text.entry_text import split_parts, tidy
from labbook.store.text.sentences import Sentences

KEYS = [
    "schema",
    "id",
    "title",
    "experiment",
    "status",
    "verdict",
    "verdict_reason",
    "exit_code",
    "started",
    "duration_s",
    "command",
    "frameworks",
    "mode",
    "host",
    "author",
    "tags",
    "symptoms",
    "families",
    "fingerprints",
    "fix",
    "params",
    "metric",
    "direction",
    "metrics",
    "code",
    "previous",
    "probe",
]


@pytest.mark.parametrize(("name", "language"), [("finished", "en"), ("crashed", "zh"), ("script", "en")])
def test_it_is_the_page_that_was_read_and_approved(runs, name, language, notebook, notebook_zh, golden, rewrite):
    page = entry_markdown(runs[name](), notebook if language == "en" else notebook_zh)
    path = golden / f"{name}.{language}.md"
    if rewrite:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8")
    assert page == path.read_text(encoding="utf-8")


def test_every_entry_is_whole_and_stable(any_run, notebook, notebook_zh):
    for book in (notebook, notebook_zh):
        page = entry_markdown(any_run, book)
        meta, body = frontmatter.parse(page, "x")
        assert [key for key in meta if key not in ("optimizer", "lr")] == KEYS
        assert meta["status"] == any_run.status and meta["id"] == any_run.id
        names = [p.name for p in split_parts(body) if p.name]
        assert names == [n for n in SECTIONS if n in names] and "title" in names
        assert entry_markdown(any_run, book, page) == page
        assert "\n\n\n" not in page and "None" not in page and "Undefined" not in page


def test_no_table_is_empty_and_every_row_has_its_cells(any_run, notebook):
    rows = entry_markdown(any_run, notebook).split("\n")
    for number, row in enumerate(rows):
        if re.fullmatch(r"\|(---\|)+", row):
            width = row.count("|")
            assert rows[number - 1].count("|") == width
            following = rows[number + 1 :]
            table = following[: next(i for i, line in enumerate(following) if not line.startswith("|"))]
            assert table and all(line.count("|") == width for line in table)


def test_a_crash_is_told_by_the_line_of_the_users_code(runs, notebook):
    page = entry_markdown(runs["crashed"](), notebook)
    assert "# train.py: RuntimeError: mat1 and mat2 shapes cannot be multiplied, at model.py:18" in page
    assert page.index("## Exception") < page.index("## Goal") < page.index("## Health checklist")
    assert "Raised at `model.py:18` in `forward`" in page and "return self.head(x.flatten(1))" in page


@pytest.mark.parametrize(
    ("states", "sentence"),
    [
        (["model", "optimizer"], "Goes on from a checkpoint of {}."),
        (["model"], "Loaded weights of {} before the first step."),  # a teacher, or those of another task
    ],
)
def test_a_training_names_the_run_of_its_checkpoint_at_the_top(runs, notebook, states, sentence):
    signals = Signals("torch", loaded=tuple({"what": what, "matched": 4} for what in states))
    run = dataclasses.replace(runs["crashed"](), resumed_from="20261120-101010-k3f9", signals=(signals,))
    head, _, _ = entry_markdown(run, notebook).partition("## Diagnosis")
    assert sentence.format("[20261120-101010-k3f9](../20/20261120-101010-k3f9.md)") in head


def test_what_was_not_observed_is_said(runs, notebook):
    page = entry_markdown(runs["probeless"](), notebook)
    assert "The probe did not start" in page and "## Not observed" in page and "not in a git repository" in page
    assert "## Health checklist" not in page and "## Curves" not in page


def test_accumulation_is_told_where_the_loss_and_the_optimizer_stand(runs, notebook, notebook_zh):
    run = runs["finished"]()
    first = run.frameworks[0]
    accumulating = dataclasses.replace(
        first, optimizers=tuple({**o, "summed": 2, "losses": ["real", "fake"]} for o in first.optimizers)
    )
    page = entry_markdown(dataclasses.replace(run, frameworks=(accumulating,)), notebook)
    assert "nesterov" not in page and "momentum 0.9, loss: real + fake, usually 2 backward passes per step |" in page
    assert "- Each value of loss is the sum of the losses of 2 backward passes; steps of more" in page
    page = entry_markdown(dataclasses.replace(run, frameworks=(accumulating,)), notebook_zh)
    assert "通常每步 2 次反向传播 |" in page and "- loss 的每个值是 2 次反向传播的损失之和；" in page


@pytest.mark.parametrize(
    ("axis", "step", "where"), [("step", "9", ", including all from step 9 on."), ("epoch", "", ".")]
)
def test_an_epoch_is_not_called_a_step(runs, notebook, axis, step, where):
    run = runs["finished"]()
    printed = Series.of_values("val_f1", "text", (3, 6, 9), (0.5, 0.6, float("nan")), axis=axis)
    page = entry_markdown(dataclasses.replace(run, series=(*run.series, printed)), notebook)
    assert f"| NaN | {step} | 3 |" in page and f"Values of val_f1 that are not finite: 1{where}\n" in page


def test_the_loss_of_each_of_several_optimizers_has_the_name_of_the_program(runs, notebook):
    run = runs["finished"]()
    first, loss = run.frameworks[0], next(one for one in run.series if one.name == "loss")
    both = tuple(
        {**first.optimizers[0], "index": index, "losses": [name]} for index, name in enumerate(("errD", "errG"))
    )
    series = (*run.series, dataclasses.replace(loss, name="loss.opt1", values=tuple(v + 1 for v in loss.values)))
    page = entry_markdown(
        dataclasses.replace(run, series=series, frameworks=(dataclasses.replace(first, optimizers=both),)), notebook
    )
    assert "| loss (errD) |" in page and "| loss.opt1 (errG) |" in page
    assert "| loss |" in entry_markdown(run, notebook)


def test_people_write_while_it_runs_and_keep_every_word(runs, notebook):
    page = entry_markdown(runs["running"](), notebook)
    mine = (
        page.replace("## Goal\n", "## Goal\n\nIs 0.1 too high? <b>\n")
        .replace("tags: []", "tags: [mine]  # keep")
        .replace("author: Wei", "author: Li")
    )
    mine += "\nI saw it.\n"
    done = entry_markdown(runs["finished"](), notebook, mine)
    assert "Is 0.1 too high? <b>\n" in done and done.endswith("\nI saw it.\n") and "# keep" in done
    meta, _ = frontmatter.parse(done, "x")
    assert meta["status"] == "finished" and set(meta["tags"]) == {"mine", "torch"} and meta["author"] == "Wei"
    assert "still" not in done.split("labbook:end title")[0] and done.count("## Goal") == 1


def test_a_finished_entry_is_the_same_whether_it_was_begun_or_not(runs, notebook):
    for name in ("finished", "crashed", "two_ranks"):
        begun = entry_markdown(runs[name](), notebook, entry_markdown(runs["running"](), notebook))
        assert begun == entry_markdown(runs[name](), notebook)


def test_a_title_of_their_own_stays_wherever_they_wrote_it(runs, notebook):
    page = entry_markdown(runs["running"](), notebook)
    for mine in (page.replace('"train.py: running"', "my title"), page.replace("# train.py: running", "# my title")):
        done = entry_markdown(runs["finished"](), notebook, mine)
        assert "\n# my title\n" in done and frontmatter.parse(done, "x")[0]["title"] == "my title"
        assert entry_markdown(runs["finished"](), notebook, done) == done
    assert "# train.py: finished" in entry_markdown(runs["finished"](), notebook, page)


@pytest.mark.parametrize(("ended", "duration_s"), [(0.14343, 0.143), (84.4666, 84.5)])
def test_a_short_run_is_as_long_on_the_page_of_its_sweep(runs, notebook, ended, duration_s):
    run = runs["finished"]()
    page = entry_markdown(dataclasses.replace(run, ended=run.started + ended), notebook)
    assert frontmatter.parse(page, "x")[0]["duration_s"] == duration_s


def test_a_section_can_be_left_out(runs, notebook):
    page = entry_markdown(runs["finished"](), notebook).replace("---\nschema", "---\nleave_out: [console]\nschema", 1)
    assert "## Console" not in entry_markdown(runs["finished"](), notebook, page)


def test_a_confirmed_fix_stays(runs, notebook):
    page = entry_markdown(runs["crashed"](), notebook).replace("fix: null", "fix: 20261122-000000-abcd")
    assert "fix: 20261122-000000-abcd" in entry_markdown(runs["crashed"](), notebook, page)


def test_of_too_many_options_those_without_value_and_with_their_default_are_left_out(runs, notebook):
    values = {f"none{n}": None for n in range(20)} | {f"default{n}": n for n in range(40)}
    values |= {f"given{n}": n for n in range(30)} | {"lr": 0.1, "model_ema": False, "opt": "sgd"}
    unchanged = (*(name for name in values if name.startswith("default")), "lr", "opt")
    run = dataclasses.replace(runs["finished"](), arguments=(Arguments("argparse", "x", values, unchanged),))

    params = frontmatter.parse(entry_markdown(run, notebook), "x")[0]["params"]
    assert {"lr", "opt", *(f"given{n}" for n in range(30))} <= set(params)
    assert not any(name.startswith("none") for name in params) and len(params) == 33


def test_an_option_that_was_not_given_has_the_value_of_the_settings(runs, notebook):
    parsed = Arguments("argparse", "train.py", {"lr": None, "seed": 1, "out": None})
    settings = Arguments("dict", "cfg", {"lr": 0.003, "seed": 2})
    run = dataclasses.replace(runs["finished"](), arguments=(parsed, settings))
    params = frontmatter.parse(entry_markdown(run, notebook), "x")[0]["params"]
    assert params == {"lr": 0.003, "seed": 1, "out": None}
    facts = {"arguments": [{"values": one.values} for one in run.arguments]}
    assert collect_arguments(facts) == params


HOSTILE = (
    "</details><script>alert(1)</script> [x](javascript:alert(1)) ![i](http://e/x) | {{ 7*7 }} {% raw %} ```\n"
    '# h\n<!-- labbook:end console -->\n--8<-- "/etc/passwd"'
)


def hostile(run):
    arguments = (Arguments(HOSTILE, HOSTILE, {HOSTILE: HOSTILE}),)
    series = tuple(dataclasses.replace(s, name=HOSTILE) for s in run.series[:1]) + run.series
    exceptions = tuple(
        dataclasses.replace(
            e,
            type=HOSTILE,
            message=HOSTILE,
            notes=(HOSTILE,),
            chain=((HOSTILE, HOSTILE, "cause"),),
            thread=HOSTILE,
            frames=tuple(dataclasses.replace(f, file=HOSTILE, function=HOSTILE, source=HOSTILE) for f in e.frames),
        )
        for e in run.exceptions
    )
    return dataclasses.replace(
        run,
        argv=("python", HOSTILE),
        cwd=HOSTILE,
        script=HOSTILE,
        title="",
        author=HOSTILE,
        host=HOSTILE,
        arguments=arguments,
        series=series,
        exceptions=exceptions,
        notes=(HOSTILE,),
        configs=(ConfigFile(HOSTILE, "yaml", HOSTILE),),
        files=(FileUse(HOSTILE, HOSTILE, 1, HOSTILE),),
        changes=(Change("code", HOSTILE, HOSTILE, HOSTILE, HOSTILE),),
        previous="20261121-150101-a1b2",
        console=Console(HOSTILE, 3),
        warnings=({"category": HOSTILE, "message": HOSTILE, "file": HOSTILE, "line": 1},),
        tags=(HOSTILE,),
        captured={k: dict.fromkeys(v, HOSTILE) | {"environment": {HOSTILE: HOSTILE}} for k, v in run.captured.items()}
        | {
            "code": {
                "commit": HOSTILE,
                "branch": HOSTILE,
                "remote": HOSTILE,
                "state": HOSTILE,
                "patch": "p.patch",
                "patch_note": HOSTILE,
                "files_changed": [{"path": HOSTILE, "status": HOSTILE}],
                "untracked": [HOSTILE],
            }
        },
        checks=tuple(dataclasses.replace(c, observed=HOSTILE, detail=HOSTILE) for c in run.checks),
        probe=dataclasses.replace(run.probe, unobserved=((HOSTILE, HOSTILE),), errors=((HOSTILE, HOSTILE, 2),)),
    )


def test_hostile_text_is_inert_in_every_place(runs, notebook):
    markdown = pytest.importorskip("markdown")
    for name in ("finished", "crashed", "two_ranks"):
        run = hostile(runs[name]())
        page = entry_markdown(run, notebook)
        meta, body = frontmatter.parse(page, "x")
        assert meta["tags"] == [HOSTILE[:100]] and "<" not in meta["title"]
        assert [p.name for p in split_parts(body) if p.name] == [
            n for n in SECTIONS if n in {p.name for p in split_parts(body)}
        ]
        shown = markdown.markdown(body, extensions=["tables", "fenced_code", "attr_list", "md_in_html"])
        assert "<script" not in shown
        assert not re.search(r'(?:href|src)="(?:javascript|http)', shown)
        assert "{{" not in page and "{%" not in page
        assert shown.count("<h1") == 1
        assert entry_markdown(run, notebook, page) == page


def big(run, width, count):
    text = "<|_*`~&" * (width // 7)
    steps = tuple(range(20))
    return dataclasses.replace(
        run,
        arguments=(Arguments("argparse", "a", {f"{text}{i}": text for i in range(count)}),),
        configs=tuple(ConfigFile(f"{text}{i}", "yaml", text * 50) for i in range(20)),
        files=tuple(FileUse(f"{text}{i}", "read", 5) for i in range(count)),
        changes=tuple(Change("argument", f"{text}{i}", text, text, text) for i in range(count)),
        previous="20261121-150101-a1b2",
        series=tuple(Series(f"{text}{i}", "text", steps, tuple(map(float, steps))) for i in range(count)),
        console=Console("\n".join(text for _ in range(count)), count),
        notes=(text,) * count,
        probe=dataclasses.replace(run.probe, unobserved=((text, text),) * count, errors=((text, text, 3),) * count),
        exceptions=tuple(dataclasses.replace(e, message=text * 50, frames=e.frames * 100) for e in run.exceptions) * 30,
        warnings=({"category": text, "message": text, "file": text, "line": 3},) * count,
        checks=run.checks * 3,
        tags=(text,) * 3,
        argv=(*run.argv, text),
        captured={
            **run.captured,
            "code": {
                **run.captured["code"],
                "files_changed": [{"path": text, "status": "M"}] * count,
                "untracked": [text] * count,
            },
            "reproducibility": {"reasons": [text] * 30},
        },
    )


@pytest.mark.parametrize(
    ("width", "count"),
    [(70, 100), pytest.param(700, 400, marks=pytest.mark.long), pytest.param(7000, 400, marks=pytest.mark.long)],
)
def test_no_entry_is_larger_than_a_page_can_be(runs, notebook, notebook_zh, width, count):
    for name in ("finished", "crashed", "two_ranks"):
        for book in (notebook, notebook_zh):
            page = entry_markdown(big(runs[name](), width, count), book)
            assert len(page.encode()) <= MAX_ENTRY_BYTES
            assert "run.json" in page


def test_a_long_console_gives_way_and_says_so(runs, notebook):
    run = dataclasses.replace(
        runs["finished"](), console=Console("\n".join(f"line {i}" for i in range(1000)), 1240, 240)
    )
    page = entry_markdown(run, notebook)
    assert (
        "last 60 of 1,240 lines" in page
        and "line 999" in page
        and "line 0\n" in page
        and "240 lines in between" in page
    )


@pytest.mark.process
def test_a_broken_template_of_the_notebook_is_named_in_the_entry(runs, notebook):
    folder = notebook.paths.templates
    folder.mkdir(parents=True)
    (folder / "entry.md.j2").write_text("{% call section('title') %}\n# {{ head.title\n{% endcall %}")
    page = entry_markdown(runs["finished"](), notebook)
    assert "entry.md.j2: line" in page and "## Health checklist" in page


def test_blank_lines_of_code_stay():
    assert tidy("a\n\n\n\nb\n```\nx\n\n\ny\n```\n\n\n<pre><code>p\n\n\nq\n</code></pre>\n\n\nc\n") == (
        "a\n\nb\n```\nx\n\n\ny\n```\n\n<pre><code>p\n\n\nq\n</code></pre>\n\nc\n"
    )


def test_a_checklist_of_the_program_is_read_in_the_language_of_the_entry():
    rows = [["labels", "0 to 9", "0 to 10; is the loader shuffled?", "fail"], ["loss", "one finite number", "1", "ok"]]
    facts = {"check": "checklist", "title": "Checklist before training", "verdict": "fail", "rows": rows}
    run = Run("r", "failed", ("python",), "/w", 0.0, asked={"checked": [facts | {"columns": COLUMNS}]})
    english, chinese = (checked_section(run, Limits(), Sentences(name))["results"][0] for name in ("en", "zh"))
    assert (english["summary"], english["rows"]) == ("2 checks; failed: labels.", rows)
    assert chinese["summary"] == "共 2 项检查；不通过：标签。"
    assert chinese["rows"][0] == ["标签", "0 to 9", "0 to 10；加载器是否打乱？", "fail"]


def test_sentences_with_values_are_said_in_the_language_of_the_entry():
    """`said` has what `labbook.checks` reports beside its English cells."""
    seen = Text("{tensor}, {low} to {high}", tensor="16x8 float32", low="0", high="1")
    row = Row("batch[0]", "finite", Text("{values}, all 0", values=seen), "fail", "clean the data")
    result = Checklist("Checklist before training", "fail", "1 checks", (row,))
    facts = {"check": "checklist", "title": result.title, "verdict": "fail", "rows": result.cells(), "columns": COLUMNS}
    asked = {"checked": [facts | {"said": message_texts(result)}]}
    run = Run("r", "failed", ("python",), "/w", 0.0, asked=json.loads(json.dumps(asked)))
    english, chinese = (checked_section(run, Limits(), Sentences(name))["results"][0] for name in ("en", "zh"))
    assert english["rows"] == [["batch[0]", "finite", "16x8 float32, 0 to 1, all 0; clean the data", "fail"]]
    assert chinese["rows"] == [["batch[0]", "有限", "16x8 float32，0 到 1，全为 0；清理数据", "fail"]]


COLUMNS = ["check", "expected", "observed", "verdict"]
