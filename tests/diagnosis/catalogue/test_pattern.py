"""Message templates: what they capture, what they refuse, and that hostile text cannot slow them down."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from order_of_tests import in_one_test

from labbook.diagnosis.catalogue.pattern import KINDS, axis, compile_pattern, fill_slots, is_different, normalise_text


def found(template: str, text: str) -> dict[str, str] | None:
    return compile_pattern(template).find(normalise_text(text))


@in_one_test(
    ("template", "text", "values"),
    [
        (
            "mat1 and mat2 shapes cannot be multiplied ({a:shape} and {b:shape})",
            "RuntimeError: mat1 and mat2 shapes\n   cannot be multiplied (4x8 and 10x2)",
            {"a": "4x8", "b": "10x2"},
        ),
        (
            "size mismatch, m1: {a:shape}, m2: {b:shape} at",
            "size mismatch, m1: [4 x 8], m2: [10 x 2] at /opt/THTensorMath.cpp:752",
            {"a": "[4 x 8]", "b": "[10 x 2]"},
        ),
        (
            "with shape {a:shape} from checkpoint, the shape in current model is {b:shape}",
            "with shape torch.Size([10, 5]) from checkpoint, the shape in current model is torch.Size([11, 5]).",
            {"a": "torch.Size([10, 5])", "b": "torch.Size([11, 5])"},
        ),
        ("No module named {m:quoted}", 'No module named "torch._six"', {"m": "'torch._six'"}),
        ("{n:int} workers exit unexpectedly", "DataLoader 2 workers exit unexpectedly", {"n": "2"}),
        ("Tried to allocate {requested:size}.", "Tried to allocate 2.50 GiB. GPU 0", {"requested": "2.50 GiB"}),
        ("on {d:device} and {e:device}!", "on cuda:0 and cpu!", {"d": "cuda:0", "e": "cpu"}),
        ("for {key:name}: copying", "size mismatch for fc.weight: copying a param", {"key": "fc.weight"}),
        ("got {x:num} at", "got nan at 3", {"x": "nan"}),
        ("open {p:path}, line", "cannot open /data/a b.txt, line", None),
        ("begin {*} end {n:int}", "begin of the end of it, end 4", None),
        ("first {**} last {n:int}", "first\nsecond\nthird\nlast 4", {"n": "4"}),
        ("first {*} last {n:int}", "first\nsecond\nthird\nlast 4", None),
        ("braces {{x}} {n:int}", "braces {x} 4", {"n": "4"}),
        ("错误：{what} 不存在", "错误: 文件 不存在", {"what": "文件"}),
    ],
)
def test_a_template_captures(template, text, values):
    assert found(template, text) == values


def test_letters_spaces_and_quotes_are_alike():
    assert found("Can't call 'numpy()' on tensor", "CAN’T  call\n“numpy()” on Tensor") == {}


def test_a_later_place_fits_where_the_first_does_not():
    assert found("size {n:int} here", "size big here, size 4 here") == {"n": "4"}


@in_one_test("template", ["{a}", "{a:shap} words", "words {a}{b} more", "{a}{b} words", "single { brace", ""])
def test_a_template_that_cannot_work_is_refused(template):
    with pytest.raises(ValueError, match=r"\w"):
        compile_pattern(template)


@given(st.text(max_size=400))
def test_any_text_can_be_searched(text):
    for template in ("size {a:shape} and {b}", "{n:int} of {**} end", "x{d:dtype}y{*}z"):
        captured = found(template, text)
        assert captured is None or all(isinstance(value, str) for value in captured.values())


@in_one_test("kind", KINDS)
def test_no_kind_goes_back_over_a_hostile_text(kind):
    # A pattern that tried again from each place would take minutes for these.
    for hostile in ("[1, " * 20_000, "1x" * 40_000, "a." * 40_000, "'" * 80_000, "(1," * 20_000 + ")", "9" * 80_000):
        assert found(f"begin {{v:{kind}}} end", "begin " + hostile) is None


def test_many_beginnings_without_an_end_are_given_up():
    assert found("begin {a} middle {b} end", "begin x " * 50_000) is None


@in_one_test(
    ("quantity", "first", "second", "different"),
    [
        ("device", "torch.cuda.FloatTensor", "torch.FloatTensor", True),
        ("device", "torch.cuda.FloatTensor", "torch.cuda.HalfTensor", False),
        ("device", "cuda:0", "cuda:1", True),
        ("device", "float", "double", False),
        ("dtype", "torch.cuda.FloatTensor", "torch.cuda.HalfTensor", True),
        ("dtype", "torch.cuda.FloatTensor", "torch.FloatTensor", False),
        ("dtype", "Double", "torch.float64", False),
        ("dtype", "c10::Half", "float", True),
        ("dtype", "unsigned char", "float", True),
    ],
)
def test_the_same_sentence_of_types_and_devices(quantity, first, second, different):
    assert is_different(quantity, first, second) is different


def test_slots_are_filled():
    values = {"a": "[4, 8]", "name": "fc"}
    assert fill_slots("{name} has {a.1} columns, {a.-1|?}", values) == "fc has 8 columns, 8"
    assert fill_slots("{name} has {b|some} columns", values) == "fc has some columns"
    assert fill_slots("{b} columns", values) is None
    assert fill_slots("{a.7} columns", values) is None
    assert axis("torch.Size([3, 4])", 0) == "3"


@pytest.mark.parametrize("text", ["CUDA error:out of memory", "CUDA error: out of memory", "CUDA error：out of memory"])
def test_a_colon_may_have_a_space_behind_it(text):
    assert compile_pattern("CUDA error: out of memory").find(normalise_text(text)) == {}
    assert compile_pattern("CUDA error:out of memory").find(normalise_text(text)) == {}


def test_a_value_may_stand_next_to_a_colon():
    assert compile_pattern("on device:{a:device} or").find(normalise_text("on device:cpu or")) == {"a": "cpu"}
    assert compile_pattern("on {a:device} or").find(normalise_text("on cuda:0 or")) == {"a": "cuda:0"}
