"""Which finding is the cause: order in time, wrapped errors, ranks, health checks, and what nobody knows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from order_of_tests import in_one_test

from labbook.diagnosis.catalogue.matcher import Matcher
from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.diagnosis.cause_ranking import diagnose
from labbook.diagnosis.text.log_reader import read_text
from labbook.model.evidence import Evidence, ObservedException, OutputLine, ProcessEnd
from labbook.model.run import CheckResult, Frame

MATCHER = Matcher(load_catalogue())
CHINESE = re.compile("[\u4e00-\u9fff]")
WIDTH = "mat1 and mat2 shapes cannot be multiplied (4x8 and 10x2)"
DEVICE = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"


def of(*raised: ObservedException, **more: object) -> list[str]:
    return [f.symptom for f in diagnose(Evidence(exceptions=raised, framework="torch", **more), MATCHER).findings]


def error(message: str, kind: str = "RuntimeError", **more: object) -> ObservedException:
    return ObservedException(kind, message, **more)


def test_a_finding_has_place_numbers_causes_and_fixes():
    frames = (
        Frame("/home/a/train.py", 30, "<module>", "loss = net(x)", user=True),
        Frame("/home/a/model.py", 12, "Net.forward", "return self.head(x)", user=True),
        Frame("/usr/lib/python3/site-packages/torch/nn/modules/linear.py", 134, "forward", "return F.linear()"),
    )
    found = diagnose(Evidence(exceptions=(error(WIDTH, frames=frames, step=3),), framework="torch"), MATCHER).primary
    assert found.symptom == "shape_mismatch_linear"
    assert found.family == "shape_mismatch"
    assert (found.where["file"], found.where["line"], found.where["after_step"]) == ("/home/a/model.py", 12, 3)
    assert found.evidence[0] == "the input has 8 features, in_features is 10"
    assert "4x8" in found.evidence[1] and "10x2" in found.evidence[1]
    assert found.values == {"a": "4x8", "b": "10x2"}
    assert found.causes and found.fixes
    assert "{" not in "".join(found.causes + found.fixes)
    assert found.fingerprint.startswith("v1:")


def test_chinese_has_the_same_finding():
    evidence = Evidence(exceptions=(error(WIDTH),), framework="torch")
    english, chinese = (diagnose(evidence, MATCHER, language).primary for language in ("en", "zh"))
    assert english.symptom == chinese.symptom
    assert any("\u4e00" <= letter <= "\u9fff" for letter in chinese.title)


def test_the_inner_error_of_a_worker_is_the_cause():
    wrapped = error(
        "Caught RuntimeError in DataLoader worker process 0.",
        inner=error("stack expects each tensor to be equal size, but got [3] at entry 0 and [4] at entry 1"),
    )
    found = of(wrapped)
    assert found[0] in ("collate_ragged", "shape_mismatch_stack")


def test_the_first_rank_to_fail_is_named():
    timeout = "[/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete"
    found = diagnose(
        Evidence(
            exceptions=(
                error(timeout, rank=0, order=20.0),
                error(WIDTH, rank=1, order=10.0),
                error(timeout, rank=2, order=21.0),
            ),
            framework="torch",
        ),
        MATCHER,
    )
    assert found.primary.symptom == "shape_mismatch_linear"
    assert found.primary.where["rank"] == 1


def test_what_came_last_ended_a_single_process():
    handled = error("No module named 'apex'", "ModuleNotFoundError", order=1.0, ended_process=False)
    assert of(handled, error(DEVICE, order=2.0))[0] == "device_mismatch"


def test_a_failed_check_that_causes_the_crash_comes_first():
    check = CheckResult("label_out_of_head", "labels in range", "0 to 9", "label 10", "fail", tier=1, family="data")
    crash = error("Target 10 is out of bounds.", "IndexError")
    found = diagnose(Evidence(exceptions=(crash,), checks=(check,), framework="torch"), MATCHER).findings
    assert {f.symptom for f in found[:2]} == {"label_out_of_head", "label_out_of_range"}


def test_a_run_that_ended_well_shows_only_its_checks():
    check = CheckResult("grad_not_cleared", "gradients cleared", "0", "11", "fail", tier=1, family="gradient")
    found = diagnose(Evidence(checks=(check,), lines=(OutputLine("Killed"),), clean_end=True), MATCHER)
    assert [f.symptom for f in found.findings] == ["grad_not_cleared"]
    assert found.primary.fixes


def test_a_warning_is_not_why_a_program_ended_itself_without_a_word():
    checks = tuple(
        CheckResult(one, "x", "y", "z", verdict, tier=1, family="data")
        for one, verdict in (("input_not_normalised", "warn"), ("loss_nonfinite", "fail"))
    )
    ended = Evidence(ending=ProcessEnd(1, ""), framework="torch")
    found = diagnose(replace(ended, checks=checks[:1]), MATCHER)
    assert not found.findings and found.unsure
    assert diagnose(replace(ended, checks=checks), MATCHER).primary.symptom == "loss_nonfinite"


def test_a_killed_process_without_words_is_told_by_its_ending():
    found = diagnose(Evidence(ending=ProcessEnd(None, "SIGSEGV"), framework="torch"), MATCHER)
    assert found.primary is not None
    assert found.primary.family == "illegal_instruction_or_segfault"


@in_one_test(
    ("message", "family"),
    [
        ("frobnicate(): expected input of shape [4, 8] but got [4, 9]", "shape_mismatch"),
        ("frobnicate(): expected scalar type Double but got Float here", "dtype_mismatch"),
        ("frobnicate(): expected the table to be on cuda:0 but it was found on cpu", "device_mismatch"),
        ("the resolution of the mask does not match that of the picture", "shape_mismatch"),
        ("Mask size mismatch for block.3: (4, 4)", "shape_mismatch"),
        ("the argument `volume` is not supported anymore, call loudness()", "api_version_mismatch"),
        ("The list of pictures does not exist: parts/train/list.csv", "file_not_found"),
        ("the mode of the layer is expected to be boolean", "type_error_user_code"),
        ("the table has a wrong number of dimensions: 4; expected 3", "shape_mismatch"),
        ("expected a picture of 3 channels, got 1", "shape_mismatch"),
        ("--tie-weights requires one vocabulary", "config_error"),
        ("Invalid pooling mode: softest", "config_error"),
        ("the norm must be one of batch, layer", "config_error"),
        ("Incorrect vocabulary format in the second column", "data_decode_error"),
        ("gather.cu 81\ncuda execution failed with error 2", "cuda_oom"),
        ("cuda launch failed, status 700", "illegal_memory_access"),
        ("[enforce fail at copy.cc:7] wrong == cudaSuccess. 77 vs 0. Error at: copy.cc:7", "illegal_memory_access"),
        ("found no usable clips left in the third part", "data_empty"),
        ("braid expects at least a 2-dimensional table", "shape_mismatch"),
    ],
)
def test_the_grammar_of_a_message_gives_the_family(message, family):
    found = diagnose(Evidence(exceptions=(error(message),), framework="torch"), MATCHER).primary
    assert found is not None
    assert found.family == family


@in_one_test(
    "message",
    [
        "something went wrong with the size of it",
        "the info is inf",
        "expected more",
        "",
        "shape shape shape",
        "the epoch has 3 parts, 2 of them are done",
        "not enough values to unpack (expected 5, got 2) in CustomError",
        "The size of the release differs. The shape is fine",
        "not found, see https://example.org/docs/errors/list.html",
        "a nan b",
    ],
)
def test_common_words_name_no_family(message):
    found = diagnose(Evidence(exceptions=(error(message, "CustomError"),), framework="torch"), MATCHER)
    assert found.primary is None
    assert found.unsure


@in_one_test(
    ("line", "family"),
    [
        ("assert pixels.shape[1:] == self.wanted", "shape_mismatch"),
        ("assert len(names) == len(pictures)", "shape_mismatch"),
        ("assert bands == channels", "shape_mismatch"),
        ("assert shape_left == shape_right", "shape_mismatch"),
        ("assert os.path.isfile(self.listing)", "file_not_found"),
        ("assert torch.isfinite(energy).all()", "nan_or_inf"),
    ],
)
def test_the_line_of_an_assertion_gives_the_family(line, family):
    text = f'Traceback (most recent call last):\n  File "run.py", line 9, in load\n    {line}\nAssertionError'
    assert diagnose(read_text(text + "`"), MATCHER).primary.family == family
    assert diagnose(read_text(text + ": it went wrong"), MATCHER).primary.family == family


@in_one_test(
    ("file", "family"),
    [
        ("/env/lib/python3.9/site-packages/torch/jit/_script.py", "compile_error"),
        (r"C:\env\Lib\site-packages\torch\serialization.py", "checkpoint_load_error"),
        ("/env/lib/python3.9/site-packages/PIL/ImageFile.py", "data_decode_error"),
        ("/home/me/PIL/mine.py", None),
        ("/env/lib/python3.9/site-packages/torch/nn/functional.py", None),
    ],
)
def test_the_file_that_raises_gives_the_family(file, family):
    text = f'Traceback (most recent call last):\n  File "{file}", line 9, in go\n    raise it\nRuntimeError: quite odd'
    found = diagnose(read_text(text), MATCHER).primary
    assert (found.family if found else None) == family


def test_the_class_in_front_of_a_notebooks_traceback_is_read_where_its_end_is_cut_off():
    text = "SyntaxError              Traceback (most recent call last)\n<ipython-input-3-00> in <module>\n----> 1 go()"
    assert diagnose(read_text(text), MATCHER).primary.symptom == "syntax_error"


@pytest.mark.parametrize(
    ("message", "symptom"),
    [
        ("element 0 of tensors does not require grad and does not ha", "loss_has_no_grad_fn"),
        ("Attempting to deserialize object on a CUDA dev...", "checkpoint_device_unavailable"),
        (
            "one of the variables needed for gradient computation has been modified by an in\u2026",
            "inplace_modified_saved_tensor",
        ),
    ],
)
def test_a_message_whose_end_is_cut_off_is_known_by_its_beginning(message, symptom):
    found = diagnose(Evidence(exceptions=(error(message),), framework="torch"), MATCHER).primary
    assert found.symptom == symptom


@pytest.mark.parametrize(
    "message",
    [
        *("Attempting to", "expected", "one of the variables has a long name"),
        "The new folds come with your PyTorch installation.",  # a whole sentence: nothing is cut off
    ],
)
def test_a_beginning_that_many_messages_share_names_nothing(message):
    assert diagnose(Evidence(exceptions=(error(message),), framework="torch"), MATCHER).primary is None


def test_the_launcher_is_not_blamed_for_an_exception_that_no_page_knows():
    text = (
        "QuibbleError: the quibble was quite unlike itself\n"
        "failed (exitcode: 1) local_rank: 0 (pid: 7) of binary: /usr/bin/python"
    )
    assert diagnose(read_text(text), MATCHER).primary is None


def test_an_error_that_no_page_knows_is_named_not_the_one_that_reports_it():
    odd = error("what only this program says", "OddError", rank=1, order=1.0)
    found = diagnose(Evidence(exceptions=(odd, error("ray::train()", "RayTaskError(OddError)", order=2.0))), MATCHER)
    assert found.unsure == "no page of the catalogue fits OddError: what only this program says"


def test_chains_that_are_deep_or_repeat_themselves_end():
    raised = error("deep")
    for _ in range(5000):
        raised = error("outer", inner=raised)
    assert diagnose(Evidence(exceptions=(raised,)), MATCHER) is not None


def test_a_broken_page_of_a_notebook_is_named_and_left_out(tmp_path: Path):
    (tmp_path / "broken.md").write_text("---\nid: broken\ntitle: x\npatterns:\n  - exception: '{a}'\n---\n")
    (tmp_path / "odd.md").write_text("---\ntitle: [1\n---\n")
    (tmp_path / "ours_full.md").write_text(
        "---\nid: ours_full\ntitle: The team disk is full\nfamily: disk_full\npatterns:\n"
        "  - exception: quota of team {team:name} is used up\n---\n\n"
        "## What to try\n1. Ask {team|the owner} for room.\n"
    )
    catalogue = load_catalogue(tmp_path)
    assert len([problem for problem in catalogue.problems if str(tmp_path) in problem]) == 2
    assert any("broken.md: line" in problem for problem in catalogue.problems)
    found = diagnose(
        Evidence(exceptions=(error("quota of team vision is used up", "OSError"),)), Matcher(catalogue)
    ).primary
    assert found.symptom == "ours_full"
    assert found.fixes == ("Ask vision for room.",)


def test_a_notebooks_page_extends_what_is_known(tmp_path: Path):
    (tmp_path / "device_mismatch.md").write_text(
        "---\nid: device_mismatch\npatterns:\n  - exception: the blob lives on another planet\n---\n\n"
        "## What to try\n1. Call home.\n"
    )
    catalogue = load_catalogue(tmp_path)
    page = catalogue.symptoms["device_mismatch"]
    assert page.wording_in("en").attempts == ("Call home.",)
    assert page.wording_in("en").title == load_catalogue().symptoms["device_mismatch"].wording_in("en").title
    assert of(error(DEVICE))[0] == "device_mismatch"
    found = diagnose(Evidence(exceptions=(error("the blob lives on another planet"),)), Matcher(catalogue)).primary
    assert found.symptom == "device_mismatch"


def test_a_symptom_stands_where_it_was_seen_best_though_it_is_hinted_at_later() -> None:
    text = """The model and loaded state dict do not match exactly

size mismatch for head.weight: copying a param with shape torch.Size([80, 256]) from checkpoint, the shape in current \
model is torch.Size([2, 256]).
size mismatch for head.bias: copy
"""
    assert diagnose(read_text(text), MATCHER).findings[0].symptom == "checkpoint_size_mismatch"


def test_a_slip_in_the_code_that_cleans_up_is_not_the_failure(family_of: Callable[[str], str]) -> None:
    text = (
        'Traceback (most recent call last):\n  File "/e/torch/nn/modules/linear.py", line 14, in forward\n'
        "    return F.linear(x, w)\nRuntimeError: expected scalar type Half but found Float\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        'Traceback (most recent call last):\n  File "train.py", line 20, in <module>\n    writer.close()\n'
        "NameError: name 'writer' is not defined\n"
    )
    assert family_of(text) == "dtype_mismatch"


def test_a_class_alone_is_no_hint_beside_a_sentence_that_nobody_knows(family_of: Callable[[str], str]) -> None:
    assert family_of("NotImplementedError: the moon phase is out of tune") == ""
    assert family_of("NotImplementedError") == "type_error_user_code"


def test_certain_is_only_what_excludes_the_alternatives():
    known = "CUDA out of memory. Tried to allocate 2.00 GiB"
    alone = diagnose(Evidence(exceptions=(error(known),)), MATCHER).primary
    assert (alone.symptom, alone.tier) == ("cuda_out_of_memory", 1)
    # Another exception ended the program, too, and nobody knows why.
    other = error("the ninth widget is unhappy", order=2.0)
    beside = diagnose(Evidence(exceptions=(error(known, order=1.0), other)), MATCHER).primary
    assert (beside.symptom, beside.tier) == ("cuda_out_of_memory", 2)
    # The message itself names two causes: the file is missing, or one that it needs.
    either = error('[WinError 126] Error loading "fbgemm.dll" or one of its dependencies.', "OSError")
    assert diagnose(Evidence(exceptions=(either,)), MATCHER).primary.tier == 2


@pytest.mark.parametrize(
    ("parameter", "reason", "symptom"),
    [
        ("[2, 512]) and whose dimensions in the checkpoint are torch.Size([10, 512])", "The size of tensor a (2) must "
         "match the size of tensor b (10) at non-singleton dimension 0", "checkpoint_size_mismatch"),
        ("[4]) and whose dimensions in the checkpoint are torch.Size([4])", "Cannot copy out of meta tensor; no "
         "data!", "device_mismatch"),
        ("[8, 8]) and whose dimensions in the checkpoint are torch.Size([8, 8])", "CUDA out of memory. Tried to "
         "allocate 86.00 MiB.", "cuda_out_of_memory"),
    ],
)  # fmt: skip
def test_the_reason_why_a_parameter_was_not_copied_is_the_cause(parameter: str, reason: str, symptom: str) -> None:
    message = (
        'Error(s) in loading state_dict for Net:\n\tWhile copying the parameter named "fc.weight", whose dimensions in '
        f"the model are torch.Size({parameter}, an exception occurred : ('{reason}',)."
    )
    assert of(error(message))[0] == symptom


def test_a_chinese_diagnosis_says_in_chinese_how_the_process_ended_and_what_is_not_known():
    facts = {"silent_s": 33.0, "waiting": "reader", "stalled": True, "core_dump": True}
    found = diagnose(Evidence(ending=ProcessEnd(None, "SIGSEGV", facts)), MATCHER, "zh").findings[0]
    assert len(found.evidence) == 3 and all(CHINESE.search(sentence) for sentence in found.evidence)
    for evidence in (Evidence(), Evidence((error("zork", ""),)), Evidence((error("zork", "Exception"),))):
        assert CHINESE.search(diagnose(evidence, MATCHER, "zh").unsure)


@in_one_test(
    ("wanted", "before", "after"),
    [
        ("config_error", error("Quantization is only compatible with the LoRA method.", "ValueError", order=1.0), None),
        ("nccl_or_collective", error("Distributed package doesn't have NCCL built in", order=1.0), None),
        ("interrupted", None, error("DataLoader worker (pid 4) exited unexpectedly", order=9.0)),
        ("interrupted", None, error("NCCL error: unhandled system error", order=9.0)),
    ],
)
def test_what_failed_before_ctrl_c_is_the_cause_and_what_the_children_say_is_not(wanted, before, after):
    stopped = error("", "KeyboardInterrupt", order=5.0)
    raised = tuple(one for one in (before, stopped, after) if one)
    assert diagnose(Evidence(exceptions=raised), MATCHER).primary.family == wanted


def test_the_family_of_a_wrapper_is_that_of_what_it_was_raised_from():
    cause = error("expected 12 columns in every row of the label file, found 11", "ReaderError")
    wrapped = error("Loading failed", "DatasetGenerationError", context=((cause, "cause"),))
    assert diagnose(Evidence(exceptions=(wrapped,)), MATCHER).primary.message.startswith("expected 12 columns")


def test_the_status_of_a_child_is_found_in_a_wrapped_message():
    text = "CalledProcessError: Command '['python', 'train.py']' returned non-zero exit\nstatus 3221225477.\n"
    assert diagnose(read_text(text), MATCHER).primary.family == "illegal_instruction_or_segfault"


def test_what_a_message_lists_as_possible_causes_is_none():
    text = "RayActorError: The actor died unexpectedly before finishing this task. There are some potential causes. "
    primary = diagnose(read_text(text + "(1) SIGKILL by the OOM killer. (3) SIGSEGV.\n"), MATCHER).primary
    assert (primary.symptom, primary.tier) == ("ray_worker_died", 3)


def test_one_rank_is_one_process(family_of: Callable[[str], str]) -> None:
    """Of two tracebacks with the same rank in front, as in a log of two runs, the last one ended the process."""
    first, last = (
        f'Traceback (most recent call last):\n  File "fit.py", line {line}, in <module>\n    step()\n{error}\n'
        for line, error in ((3, "KeyError: 'rate'"), (9, "RuntimeError: CUDA out of memory. Tried to allocate 1 GiB"))
    )
    text = first + "starting again\n" + last
    assert family_of(text) == "cuda_oom"
    assert family_of("".join(f"[rank0]: {line}\n" for line in text.splitlines())) == "cuda_oom"
    ranks = zip((first, last), (1, 0), strict=True)
    assert family_of("".join(f"[rank{n}]: {line}\n" for one, n in ranks for line in one.splitlines())) != "cuda_oom"
