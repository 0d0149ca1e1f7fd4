"""When the fix of an earlier failure is one for a failure of now."""

from __future__ import annotations

from dataclasses import replace

import pytest
from order_of_tests import in_one_test

from labbook.fixes.fix_applicability import (
    Circumstances,
    can_apply,
    diff_changes,
    differ_in_framework,
    is_description,
    is_for_other_value,
    is_same_failure,
    sets_named_number,
    sets_refused_value,
    touches_failure,
)
from labbook.model.confirmed_fix import changed_lines, describe_changes
from labbook.model.finding import Finding
from labbook.model.run import Change, Framework, Run
from labbook.model.symptom import Symptom, Wording
from labbook.store.text.sentences import Sentences


def crash(message, exception="RuntimeError", symptom="s", fingerprint="", **more):
    return Finding(
        symptom, "other", "x", 1, "error", "t", message=message, exception=exception, fingerprint=fingerprint, **more
    )


def code(*lines, what="train.py"):
    return Change("code", what, "", "", "\n".join(["--- a/x", "+++ b/x", "@@ -1 +1 @@", *lines]))


def here(**more):
    facts = {"options": {}, "packages": {}, "environment": {}, "configs": (), "code": ""}
    return Circumstances(**{**facts, **more})


@in_one_test(
    ("one", "other", "same"),
    [
        (crash("mat1 (16x32 and 48x5)"), crash("mat1 (64x5 and 20x32)"), True),
        (
            crash("No module named 'a'", "ModuleNotFoundError"),
            crash("No module named 'b'", "ModuleNotFoundError"),
            False,
        ),
        (
            crash("name 'a' is not defined", "NameError", values={"name": "'a'"}, fingerprint="v1:a"),
            crash("name 'b' is not defined", "NameError", values={"name": "'b'"}, fingerprint="v1:a"),
            False,
        ),
        (crash("error: unrecognized --lr-x 3", ""), crash("error: unrecognized --epochs 3", ""), False),
        (crash("x"), crash("x", symptom="other"), False),
        (crash("x"), crash("x", "ValueError"), False),
        (crash("x", symptom=""), crash("x", symptom=""), False),
        (crash("x", symptom="", fingerprint="v1:a"), crash("y", symptom="", fingerprint="v1:a"), True),
    ],
)
def test_a_crash_is_the_same_if_it_says_the_same_apart_from_values(one, other, same):
    assert is_same_failure(one, other, is_check=False) is same


def test_a_check_is_the_same_for_the_same_kind_of_parameter():
    one, other = (crash("x", "", where={"parameter": name}) for name in ("a.0.weight", "b.2.bias"))

    assert not is_same_failure(one, other, is_check=True)
    assert is_same_failure(one, crash("y", "", where={"parameter": "c.weight"}), is_check=True)
    assert is_same_failure(one, crash("y", ""), is_check=True)


@in_one_test(
    ("change", "circumstances", "applies"),
    [
        (Change("argument", "--lr", "50", "0.01"), here(options={"lr": "30"}), True),
        (Change("argument", "--lr", "50", "0.01"), here(options={"lr": "500"}), True),
        (Change("argument", "--lr", "50", "0.01"), here(options={"lr": "0.1"}), False),
        (Change("argument", "--lr", "50", "0.01"), here(options={"lr": "0.0001"}), False),
        (Change("argument", "--lr", "50", "0.01"), here(), False),
        (Change("argument", "--data", "a.csv", "b.csv"), here(options={"data": "c.csv"}), False),
        (Change("argument", "--amp", "True", "False"), here(options={"amp": "True"}), True),
        (Change("environment", "PYTHONPATH", "", "src"), here(), True),
        (Change("environment", "PYTHONPATH", "", "src"), here(environment={"PYTHONPATH": "src"}), False),
        (Change("package", "torch", "2.1", "2.2"), here(packages={"torch": "2.1"}), True),
        (Change("package", "torch", "2.1", "2.2"), here(packages={"torch": "2.3"}), False),
        (Change("hardware", "gpus", "a", "b"), here(), False),
        (Change("code", "commit", "1", "2"), here(code="x = 1"), False),
        (code("-y = nn.Linear(32, 10)", "+y = nn.Linear(48, 10)"), here(code="y = nn.Linear(16, 10)"), True),
        (code("-y = nn.Linear(32, 10)", "+y = nn.Linear(48, 10)"), here(code="y = nn.Linear(48, 10)"), False),
        (code("-m = re.match('a', b)", "+m = re.match('c', b)"), here(code="m = re.match('x', b)"), False),
        (code("-m = re.match('a', b)", "+m = re.match('c', b)"), here(code="m = re.match('a', b)"), True),
        (code("-y = nn.Linear(32, 10)", "+y = nn.Linear(48, 10)"), here(code="y = nn.Conv2d(1, 2)"), False),
        (code("-print(xs[9])", "+print(xs[9 - 1])"), here(code="print(xs[0])"), False),
        (code("-print(xs[9])", "+print(xs[9 - 1])"), here(code="print(xs[9])"), True),
        (code("+opt.zero_grad()"), here(code="loss.backward()\nopt.step()"), True),
        (code("+opt.zero_grad()"), here(code="opt.zero_grad()\nopt.step()"), False),
        (code("-x = x.double()", "+x = x.float()"), here(code="y = y.int()"), False),
        (code("-m = Net(nn.Softmax(1))", "+m = Net()"), here(code="head = nn.Softmax(dim=-1)"), True),
        (code('-"a": 1', '+"a": 1,', '+"lr": 3', what="c.json"), here(configs=['{"a": 1}']), True),
        (code('-"a": 1', '+"a": 1,', '+"lr": 3', what="c.json"), here(configs=['{\n "a": 1\n}']), True),
        (code('-"a": 1', '+"a": 1,', '+"lr": 3', what="c.json"), here(configs=['{\n "a": 1,\n "lr": 3\n}']), False),
    ],
)
def test_a_fix_applies_where_it_is_still_to_be_made(change, circumstances, applies):
    assert can_apply(change, circumstances) is applies


@in_one_test(("value", "applies"), [("48", True), ("16", True), ("64", False), ("wide", False)])
def test_any_other_number_failed_where_an_exception_was_raised(value, applies):
    change = Change("argument", "--hidden", "32", "64")
    assert can_apply(change, here(options={"hidden": value}), crash("x")) is applies


@in_one_test(
    ("source", "applies"),
    [
        ("return open(p).read()", True),
        ("return open(p, encoding='utf-8').read()", False),
        ("return bytes(p).decode('ascii')", False),
        ("", False),
    ],
)
def test_what_was_added_to_a_call_fits_the_same_call_in_the_failing_line(source, applies):
    change = code("-t = open('a.txt').read()", "+t = open('a.txt', encoding='gbk').read()")
    circumstances = here(code="def f(p):\n    " + (source or "pass"))
    assert can_apply(change, circumstances, crash("x", where={"source": source})) is applies


@pytest.mark.parametrize(("source", "applies"), [("for k in x: print(optimzer)", True), ("print(model)", False)])
def test_a_misspelt_name_is_taken_out_of_the_failing_line(source, applies):
    change = code("-print(optimzer)", "+print(optimizer)")
    assert can_apply(change, here(code=source), crash("x", where={"source": source})) is applies


@pytest.mark.parametrize(("source", "applies"), [("import foo", True), ("import foo as f", False)])
def test_a_module_is_left_out_only_where_the_same_line_imports_it(source, applies):
    change = code("-import foo", "+import math")
    assert can_apply(change, here(code=source), crash("x", where={"source": source})) is applies


@in_one_test(
    ("source", "named"),
    [("x = cfg['lr'] * 0.5", True), ("if args.lr != 1:", True), ("import a.lr.b", False), ("y = a.lr(x)", False)],
)
def test_a_failing_line_names_an_option_by_key_or_attribute(source, named):
    change = Change("argument", "lr", "1e-4", "0.0001")
    assert touches_failure(change, crash("unsupported operand", where={"source": source}), None) is named


@pytest.mark.parametrize(("value", "fits"), [("cuda", True), ("cuda:1", True), ("mps", False), ("cpu", False)])
def test_an_option_with_another_index_of_the_device_that_failed_is_to_be_changed(value, fits):
    change = Change("argument", "--device", "cuda:0", "cpu")
    assert can_apply(change, here(options={"device": value}), crash("not compiled with CUDA enabled")) is fits


def test_an_option_that_was_refused_is_taken_out_whatever_its_value():
    change = Change("argument", "--learning-rate", "0.1", "")
    assert can_apply(change, here(options={"learning_rate": "0.5"}), crash("x"))
    assert not can_apply(change, here(), crash("x"))
    one, other = (
        crash("unrecognized arguments", "", values={"option": f"--learning-rate {value}"}) for value in ("0.1", "0.5")
    )
    assert is_same_failure(one, other, is_check=False)


@pytest.mark.parametrize(
    ("text", "applies"),
    [("v = sum(xs) / len(xs)", True), ("import os\nv = lr / warmup", False), ("if not xs:\n    xs = [0]", False)],
)
def test_lines_added_before_a_crash_apply_where_their_neighbours_stand(text, applies):
    change = code(" import os", "+if not xs:", "+    xs = [0]", " v = sum(xs) / len(xs)")
    assert can_apply(change, here(code=text), crash("x")) is applies


def test_a_difference_touches_a_failure_that_names_it_or_whose_page_lists_it():
    page = Symptom("s", "other", "x", 1, "error", (), {"en": Wording("s")}, cured_by=("argument:*lr*", "package:*"))
    missing = crash("No module named 'tiktoken'", "ModuleNotFoundError")

    assert touches_failure(Change("package", "tiktoken", "", "0.7"), missing, page)
    assert not touches_failure(Change("package", "alabaster", "", "1.0"), missing, page)
    assert touches_failure(Change("argument", "--lr", "1", "2"), missing, page)
    assert not touches_failure(Change("argument", "--seed", "1", "2"), missing, page)
    assert touches_failure(code("+x"), missing, page)


@in_one_test(
    ("message", "config", "fits"),
    [
        ("'hidden'", "dim: 32\ndropout: 0.3\n", True),
        ("'hidden'", "dim: 32\nhidden: 8\n", False),
        ("'dropout'", "dim: 32\n", False),
    ],
)
def test_a_key_that_was_added_to_a_configuration_fits_where_the_same_key_is_missing(message, config, fits):
    change = Change("config", "a.yaml", "", "hidden: 64", "--- before\n+++ now\n@@ -5 +5,2 @@\n dim: 32\n+hidden: 64")
    failure = crash(message, "KeyError", where={"source": 'Net(cfg["dim"], cfg["hidden"], cfg["dropout"])'})

    assert (touches_failure(change, failure, None) and can_apply(change, here(configs=(config,)), failure)) is fits


@in_one_test(
    ("option", "value", "said", "fits"),
    [
        ("--width", "128", "[32, 16] from checkpoint, in current model [128, 16]", True),
        ("--width", "128", "[48, 16] from checkpoint, in current model [128, 16]", False),
        ("--bs", "256", "[32, 16] from checkpoint, in current model [128, 16]", False),
    ],
)
def test_an_option_with_the_number_that_failed_is_cured_by_the_other_number_of_the_message(option, value, said, fits):
    there = crash("size mismatch for 0.weight: [32, 16] from checkpoint, in current model [64, 16]")
    change = Change("argument", option, "64", "32")
    now = here(options={option.lstrip("-"): value})
    assert sets_named_number(change, there, crash(f"size mismatch for 0.weight: {said}"), now) is fits


CONFIG = Change("config", "c.json", "", "", '\n@@ @@\n-{"optimizer": "adamm"}\n+{"optimizer": "adam"}')


@in_one_test(
    ("change", "then", "said", "circumstances", "fits"),
    [
        (Change("argument", "--init", "best.pt", "last.pt"), "No file: 'best.pt'", "No file: 'x/epoch9.pt'",
         {"options": {"init": "x/epoch9.pt"}}, True),
        (Change("argument", "--init", "best.pt", "last.pt"), "No file: 'best.pt'", "No file: 'conf.json'",
         {"options": {"init": "epoch9.pt"}}, False),
        (Change("argument", "--init", "best.pt", "last.pt"), "No file: 'best.pt'", "No file: 'last.pt'",
         {"options": {"init": "last.pt"}}, False),
        (Change("environment", "MODE", "prod", "train"), "unknown mode 'prod'", "unknown mode 'test'",
         {"environment": {"MODE": "test"}}, True),
        (Change("argument", "--n", "8", "4"), "bad 8", "bad 9", {"options": {"n": "9"}}, False),
        (CONFIG, "'adamm'", "'Adam'", {"configs": ['{"lr": 3, "optimizer": "Adam"}']}, True),
        (replace(CONFIG, kind="code"), "'adamm'", "'Adam'", {"configs": ["optimizer: Adam"]}, True),
        (CONFIG, "'adamm'", "'window'", {"configs": ['{"lr": 3, "optimizer": "adam"}']}, False),
    ],
)  # fmt: skip
def test_another_value_of_the_same_option_is_refused_in_the_same_way(change, then, said, circumstances, fits):
    assert sets_refused_value(change, crash(then), crash(said), here(**circumstances)) is fits


def test_the_changed_lines_of_a_fix_are_read_from_its_entry():
    page = (
        "text\n```diff\n--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-a\n+b\n--- /dev/null\n+++ b/n.py\n@@ -0 +1 @@\n+c\n```\n"
    )

    assert [change.what for change in diff_changes(page)] == ["m.py", "n.py"]
    assert diff_changes("no fix") == []
    assert is_description("scale the images", [code("+x")]) and not is_description("train.py: x", [code("+x")])


@pytest.mark.parametrize(("value", "fits"), [("64", True), ("128", True), ("16", False)])
def test_a_smaller_batch_is_no_cure_for_one_that_is_smaller_yet(value, fits):
    out_of_memory = Finding("cuda_out_of_memory", "cuda_oom", "device", 1, "error", "t", exception="OutOfMemoryError")
    assert can_apply(Change("argument", "--b", "64", "32"), here(options={"b": value}), out_of_memory) is fits


@in_one_test(
    ("said", "other"),
    [
        ("the model has no module.0.weight", False),
        ("the model has no backbone.0.weight", True),
    ],
)
def test_a_string_that_only_the_earlier_failure_names_is_for_that_failure(said, other):
    change = code("-load(state)", '+load({k.removeprefix("module."): v for k, v in state.items()})')

    there = crash("Error(s) in loading", evidence=("the model has no module.2.bias",))
    assert is_for_other_value(change, there, crash("Error(s) in loading", evidence=(said,))) is other
    assert not is_for_other_value(code('-open(path, "r")', '+open(path, "rb")'), there, crash("x"))


@in_one_test(("got", "other"), [(1, False), (32, True), (3.5, True)])
def test_a_number_that_only_the_earlier_failure_names_is_for_that_failure(got, other):
    change = code("-conv = Conv2d(3, 8, 5)", "+conv = Conv2d(1, 8, 5)")
    there, now = (
        crash(
            f"groups=1, expected input[2, {n}, 28, 28] to have 3 channels, but got {n} channels", values={"got": str(n)}
        )
        for n in (1, got)
    )
    assert is_for_other_value(change, there, now) is other
    without_values = (replace(one, values={}, message=one.message.partition(", ")[2]) for one in (there, now))
    assert is_for_other_value(change, *without_values) is other


@in_one_test(("path", "touches"), [("data/train.csv", True), ("data/val.csv", False), ("train/val.csv", False)])
def test_a_file_that_was_missing_is_a_fix_for_the_same_file(path, touches):
    change = Change("input", "data/train.csv", "", "8 bytes")
    failure = crash(f"[Errno 2] No such file or directory: '{path}'", "FileNotFoundError")

    assert touches_failure(change, failure, None) is touches
    assert can_apply(change, here(), failure)


@in_one_test(("language", "text"), [
    ("en", "data/train.csv added; CORPUS=data; rich 13.0 installed"),
    ("zh", "新增 data/train.csv；CORPUS=data；安装 rich 13.0"),
])  # fmt: skip
def test_what_is_new_is_described_by_what_it_is(language, text):
    changes = (
        Change("input", "data/train.csv", "", "8 bytes, sha256 96bbd5de"),
        Change("environment", "CORPUS", "", "data"),
        Change("package", "rich", "", "13.0"),
    )
    assert Sentences(language)(describe_changes(changes)) == text


@in_one_test(("lines", "text"), [
    (("-for p in ps:", "-    if p.dim() > 1:", "-        init(p, -9)"), "train.py: init(p, -9) removed"),
    (("+import a", "+x = a.f(x)", "+y = a.g(y)", "+)"), "train.py: x = a.f(x); y = a.g(y) added"),
    (("-for i in a:", "+for i in b:"), "train.py: for i in a: → for i in b:"),
    (("-with no_grad():", "-    y = f(x)", "+y = f(x)"), "train.py: with no_grad(): removed"),
    (("-f(lr=1)", "+f(lr=2)", "+opt.step()"), "train.py: f(lr=1) → f(lr=2); train.py: opt.step() added"),
    (("-mask = None", "-lr = 0.1", "+lr = 0.2"), "train.py: mask = None removed; train.py: lr = 0.1 → lr = 0.2"),
    (("+a()", "+b()", "+c()"), "train.py +3 -0 lines"), (("+if a:", "+else:", "+try:"), "train.py +3 -0 lines"),
])  # fmt: skip
def test_of_a_change_of_some_lines_those_are_shown_that_do_something(lines, text):
    assert Sentences("en")(describe_changes((code(*lines),))) == text


@in_one_test(("lines", "changed"), [
    (("-total = 0", "+total = 0  # sum", "+opt.zero_grad()"), ([], ["opt.zero_grad()"])),
    (("-# old remark", "+# new remark", "-a = '#1'", "+a = '#2'"), (["a = '#1'"], ["a = '#2'"])),
    (("-a()  # once", "+  a()  # once", "+#include <a>"), (["a()  # once"], ["a()  # once", "#include <a>"])),
])  # fmt: skip
def test_lines_that_differ_in_a_comment_alone_are_no_change(lines, changed):
    assert changed_lines(code(*lines).detail) == changed


@in_one_test(("source", "applies"), [("loss.backward()", True), ("opt.zero_grad(); loss.backward()", False)])
def test_a_statement_that_was_taken_out_fits_the_very_statement(source, applies):
    change = code("-loss.backward()", "+pass")
    failure = crash("Trying to backward through the graph a second time", where={"source": source})

    assert can_apply(change, here(code=f"for x in data:\n    {source}\n"), failure) is applies


@in_one_test(("names", "differ"), [(("paddle",), True), (("torch",), False), (("paddle", "torch"), False), ((), False)])
def test_code_of_another_framework_is_no_fix(names, differ):
    runs = [
        Run(
            "20261121-100000-aaaa",
            "failed",
            ("python", "a.py"),
            "/w",
            0.0,
            frameworks=tuple(Framework(n, "1") for n in own),
        )
        for own in (("torch",), names)
    ]
    assert differ_in_framework(*runs) is differ


def test_the_very_line_that_was_changed_is_to_be_changed_even_if_the_code_has_the_new_name_elsewhere():
    change = Change("code", "a.py", "", "", "\n@@ @@\n-return torch.tensor(x)\n+return torch.tensor(x).float()")
    assert can_apply(change, here(code="best = float(y)\n    return torch.tensor(x)\n"))
