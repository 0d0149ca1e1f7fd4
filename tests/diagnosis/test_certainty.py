"""What a diagnosis says with certainty: the whole message of what ended the program, on a page with one cause."""

from __future__ import annotations

import pytest

from labbook.diagnosis.catalogue.matcher import Matcher
from labbook.diagnosis.catalogue.symptom_catalogue import BUILT_IN, read_pages
from labbook.diagnosis.cause_ranking import diagnose
from labbook.diagnosis.text.log_reader import read_text
from labbook.model.evidence import Evidence
from labbook.model.message import Message
from labbook.model.run import CheckResult

CATALOGUE = read_pages(BUILT_IN.glob("*.md"))
MATCHER = Matcher(CATALOGUE)
TRACEBACK = 'Traceback (most recent call last):\n  File "run.py", line {line}, in {place}\n    {source}\n'
LAST = TRACEBACK.format(line=31, place="<module>", source="main()")


def certain(text: str) -> list[str]:
    return [one.symptom for one in diagnose(read_text(text), MATCHER).findings if one.tier == 1]


@pytest.mark.parametrize("last", ["GroveError: the second part is missing", "KeyError: 'epoch'"])
def test_no_page_is_certain_of_an_exception_before_the_one_that_ended_the_program(last):
    own = certain(LAST + last)
    wrong = []
    for page in CATALOGUE.symptoms.values():
        for example in page.matches[:2]:
            first = TRACEBACK.format(line=8, place="load", source="part = read(name)") + example.text.strip()
            found = [one for one in certain(f"{first}\ntrying the next part\n{LAST}{last}") if one not in own]
            wrong += [(page.id, found, example.text)] if found else []
    assert not wrong


@pytest.mark.parametrize(
    ("text", "id_"),
    [
        ("RuntimeError: {}index out of range in self", "embedding_index_out_of_range"),
        ("ValueError: {}optimizer got an empty parameter list", "optimizer_empty_params"),
    ],
)
def test_only_a_message_that_begins_with_the_words_of_a_page_is_certain(text, id_):
    assert certain(LAST + text.format("")) == [id_]
    assert certain(LAST + text.format("(InvalidArgument) ")) == [id_]
    assert certain(LAST + text.format("stage 3 stopped: ")) == [id_]
    assert not certain(LAST + text.format("the report says that "))


@pytest.mark.parametrize(
    "message",
    [
        "ValueError: Unable to create tensor, you should probably activate truncation and/or padding",
        "RuntimeError: expected scalar type Long but found Float",
        "RuntimeError: Numpy is not available",
        "TypeError: 'Tensor' object is not callable",
        "ValueError: (InvalidArgument) Failed to parse program_desc from binary string.",
        "RuntimeError: PassManager::run failed",
        "torch.multiprocessing.spawn.ProcessExitedException: process 2 terminated with signal SIGKILL",
        "subprocess.CalledProcessError: Command '['python']' died with <Signals.SIGKILL: 9>.",
    ],
)
def test_no_page_is_certain_of_a_message_that_has_several_causes(message):
    found = diagnose(read_text(LAST + message), MATCHER).primary
    assert found is not None and found.tier > 1


@pytest.mark.parametrize("sign", ["bash: line 1:  3128 Killed   python train.py", "exitcode  : -9 (pid: 3128)"])
def test_a_kill_is_certain_only_with_a_report_of_the_memory(sign):
    assert diagnose(read_text(sign), MATCHER).primary and not certain(sign)
    assert certain(f"{sign}\nslurmstepd: error: Detected 1 oom_kill event in StepId=81234.0.") == [
        "process_killed_by_os"
    ]


def test_what_a_message_guesses_is_not_the_cause_where_the_error_behind_it_says_it():
    behind = f"{LAST}ValueError: too many dimensions 'str'"
    guess = "Unable to create tensor, you should probably activate truncation and/or padding with 'padding=True'."
    text = (
        f"{behind}\n\nDuring handling of the above exception, another exception occurred:\n\n{LAST}ValueError: {guess}"
    )
    found = diagnose(read_text(text), MATCHER).primary
    assert found is not None and found.family == "type_error_user_code"


def test_options_that_lack_a_name_may_be_the_wrong_object():
    text = f"{LAST}AttributeError: 'Namespace' object has no attribute 'train'"
    assert [one.symptom for one in diagnose(read_text(text), MATCHER).findings] == ["command_line_invalid"]
    assert not certain(text)


def test_a_class_with_a_message_that_no_page_has_is_not_certain():
    for kind in ("SyntaxError", "OutOfMemoryError", "RecursionError", "KeyboardInterrupt"):
        assert not certain(f"{LAST}{kind}: the second part is missing")


@pytest.mark.parametrize(
    ("symptom", "key", "cause", "fix"),
    [
        ("lr_schedule_wrong", "health.lr_schedule_wrong.never", "does not call", "scheduler.step"),
        ("lr_schedule_wrong", "health.lr_schedule_wrong.by_epoch", "once per batch", "scheduler.step"),
        ("lr_schedule_wrong", "health.lr_schedule_wrong.beyond_end", "once per batch", "Derive the length"),
        ("kv_cache_wrong", "health.kv_cache_wrong.moved", "rolled", ""),
        ("param_never_gets_grad", "health.param_never_gets_grad.cut_off", "enter the loss", "loss depend"),
        ("grad_param_not_in_optimizer", "health.grad_param_not_in_optimizer.left_out", "left out", "add_param_group"),
        ("metric_of_wrong_values", "review.predictions_pile_up.what", "what the rule found", ""),
        ("grad_not_cleared", "health.grad_not_cleared.less_often", "less often", ""),
    ],
)
def test_what_a_check_observed_chooses_the_cause(symptom: str, key: str, cause: str, fix: str) -> None:
    """A page lists causes for all that its check may observe; a rule of the review says itself what is wrong."""
    row = CheckResult(
        symptom, "t", "", "what the rule found", "warn", tier=1, observed_message=Message(key), evidence=("line 3",)
    )
    found = diagnose(Evidence(checks=(row,), framework="torch", clean_end=True), MATCHER).findings[0]
    assert cause in found.causes[0] and fix in found.fixes[0] and found.evidence[-1] == "line 3"


@pytest.mark.parametrize("file", ["run.py", "/usr/lib/python3.11/site-packages/grove/base.py", ""])
def test_a_page_that_means_another_in_a_library_is_certain_only_of_the_own_code(file):
    lines = (
        f'Traceback (most recent call last):\n  File "{file}", line 3, in <module>\n    use(Tensor)\n' if file else ""
    )
    assert certain(f"{lines}NameError: name 'Tensor' is not defined") == (
        ["name_undefined"] if file == "run.py" else []
    )


@pytest.mark.parametrize(
    ("missing", "unexpected", "page"),
    [
        ("stem.weight", "module.stem.weight", "checkpoint_prefix_mismatch"),
        ("module.stem.weight", "stem.weight", "checkpoint_prefix_mismatch"),
        ("stem.bias", "module.head.weight", "checkpoint_keys_mismatch"),
    ],
)
def test_keys_differ_by_a_prefix_only_where_one_is_another_with_it(missing, unexpected, page):
    lists = f'Missing key(s) in state_dict: "{missing}". \n\tUnexpected key(s) in state_dict: "{unexpected}". '
    assert certain(f"{LAST}RuntimeError: Error(s) in loading state_dict for Net:\n\t{lists}") == [page]


@pytest.mark.parametrize(
    ("library", "page"),
    [("libcudart.so.12", "shared_library_not_found"), ("/srv/grove/libgrove_cpu.so", "extension_not_built")],
)
def test_a_library_that_is_opened_by_its_path_is_of_the_package(library, page):
    text = f"{LAST}OSError: {library}: cannot open shared object file: No such file or directory"
    assert [one.symptom for one in diagnose(read_text(text), MATCHER).findings] == [page]


def test_a_library_that_only_wraps_a_failed_import_does_not_explain_it():
    inner = f"{LAST}AttributeError: module 'triton' has no attribute '__version__'"
    wrapper = (
        "Failed to import grove.models because of the following error (look up to see its traceback):\nmodule 'tri"
    )
    cause = "\n\nThe above exception was the direct cause of the following exception:\n\n"
    found = diagnose(read_text(f"{inner}{cause}{LAST}RuntimeError: {wrapper}"), MATCHER).primary
    assert found is not None and found.symptom == "removed_api_used"
