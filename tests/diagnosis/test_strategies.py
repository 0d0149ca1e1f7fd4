"""Which reader decides where several can explain a failure: the strategies in order, and what each one decides."""

from __future__ import annotations

from dataclasses import replace

import pytest
from order_of_tests import in_one_test

from labbook.diagnosis.candidates import collect_candidates
from labbook.diagnosis.catalogue.matcher import Matcher
from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.diagnosis.cause_ranking import diagnose
from labbook.diagnosis.run_evidence import collect_run_evidence
from labbook.diagnosis.strategies import STRATEGIES, Case, choose_findings, choose_strategy
from labbook.diagnosis.text.log_reader import read_text
from labbook.model.run import CaughtException, Run

MATCHER = Matcher(load_catalogue())
RUN = Run("i", "failed", ("python", "a.py"), "/w", 0.0, exit_code=1)
ORDER = ("certain page", "family of an exception", "line of a program", "likely page")

PAGE = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 10x2)\n"
FAMILY = "voluptuous.error.MultipleInvalid: the depth of the second block\n"
LINE = "[TRT] Unsupported operator: NonMaxSuppression\n"
LIKELY = "Aborted (core dumped)\n"


def case_of(text: str) -> Case:
    evidence = read_text(text)
    return Case(evidence, MATCHER, "en", tuple(collect_candidates(evidence, MATCHER)))


def test_the_strategies_are_asked_in_this_order():
    assert tuple(STRATEGIES) == ORDER
    assert all(strategy.__doc__ for strategy in STRATEGIES.values())


@in_one_test(
    ("strategy", "text", "family"),
    [
        ("certain page", PAGE, "shape_mismatch"),
        ("family of an exception", FAMILY, "config_error"),
        ("line of a program", LINE, "unsupported_op"),
        ("likely page", LIKELY, "illegal_instruction_or_segfault"),
        # Where two can answer, the earlier one decides.
        ("certain page", PAGE + FAMILY, "shape_mismatch"),
        ("certain page", LINE + PAGE, "shape_mismatch"),
        ("certain page", PAGE + LIKELY, "shape_mismatch"),
        ("family of an exception", LINE + FAMILY, "config_error"),
        ("family of an exception", FAMILY + LIKELY, "config_error"),
        ("line of a program", LINE + LIKELY, "unsupported_op"),
    ],
)
def test_the_first_strategy_with_an_answer_decides(strategy: str, text: str, family: str) -> None:
    name, findings = choose_strategy(case_of(text))
    assert (name, findings[0].family) == (strategy, family)


@pytest.mark.parametrize("text", ["It stopped today, any idea?\n", "ValueError: the answer was not 42\n"])
def test_without_an_answer_the_failure_is_unknown(text: str) -> None:
    assert choose_strategy(case_of(text)) == ("", [])


def test_errors_that_one_cause_explains_are_no_list_of_messages() -> None:
    worker = (
        "RuntimeError: DataLoader worker (pid 16) is killed by signal: Bus error. It is possible that dataloader's "
    )
    text = f"malloc(): memory corruption\n{worker}workers are out of shared memory.\n"
    text += "RuntimeError: DataLoader worker (pid(s) 16) exited unexpectedly\n"
    assert choose_findings(case_of(text))[0].family == "shared_memory"


def test_a_training_that_only_warns_of_slowness_has_no_finding() -> None:
    slow = (
        "UserWarning: This DataLoader will create 16 worker processes in total. Our suggested max number of worker in "
    )
    steps = "".join(f"epoch {n} step 10 loss 0.{n}\n" for n in range(1, 6))
    assert choose_findings(case_of(f"{slow}in current system is 2\n{steps}")) == []


@pytest.mark.parametrize("innermost", ["/opt/conda/lib/python3.10/site-packages/flow/core.py", "/home/u/proj/net.py"])
def test_an_error_that_no_page_knows_comes_with_its_message_and_the_line_of_the_program(innermost):
    text = (
        'Traceback (most recent call last):\n  File "/home/u/proj/train.py", line 61, in main\n    link(a, b)\n'
        f'  File "{innermost}", line 122, in link\n    raise OddError(text)\nflow.OddError: the quibble was odd\n'
    )
    own = "train.py, line 61: link(a, b)" if "site-packages" in innermost else "net.py, line 122: raise OddError(text)"
    unsure = diagnose(read_text(text), MATCHER).unsure
    assert unsure == f"no page of the catalogue fits OddError: the quibble was odd (/home/u/proj/{own})"


@in_one_test(
    "line", ["Failed to load gemm from kernels: No module named 'kernels'", "cache: No such file or directory"]
)
def test_a_line_about_what_programs_do_without_does_not_stand_in_for_an_unknown_exception(line):
    text = f'{line}\nTraceback (most recent call last):\n  File "a.py", line 4, in <module>\n    net.use("quibble")\n'
    found = diagnose(read_text(f"{text}OddError: the quibble was odd\n"), MATCHER)
    assert not found.findings and "OddError: the quibble was odd" in found.unsure


def test_a_scheduler_that_stops_the_tasks_of_a_job_is_not_blamed_for_an_exception_that_no_page_knows() -> None:
    cancelled = "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-01-02T03:04:05 ***\n"
    stopped = f"srun: Terminating job step 7.0\n{cancelled}"
    killed = "srun: error: n1: tasks 1-3: Terminated\nsrun: error: n1: tasks 4-5: Killed\n"
    raised = 'Traceback (most recent call last):\n  File "fit.py", line 9, in main\n    assert fast\n'
    assert choose_findings(case_of(f"{raised}AssertionError: 28 rows a second\n{stopped}{killed}")) == []
    assert choose_findings(case_of(stopped + killed))[0].family == "interrupted"


def test_a_whole_message_says_more_than_the_class_of_a_library() -> None:
    of_class = "lightning.fabric.utilities.exceptions.MisconfigurationException: "
    scheduler = "The provided lr scheduler `<StepLR object at 0x7f>` doesn't follow PyTorch's LRScheduler API."
    assert choose_findings(case_of(f"{of_class}{scheduler}\n"))[0].symptom == "removed_api_used"
    assert choose_findings(case_of(f"{of_class}mode is no longer supported here\n"))[0].family == "config_error"


def test_a_watchdog_that_ended_is_no_timeout() -> None:
    ended = "[E ProcessGroupNCCL.cpp:916] [Rank 7] NCCL watchdog thread terminated with exception: "
    assert choose_findings(case_of(f"{ended}CUDA error: unknown error\n"))[0].symptom == "cuda_driver_outdated"


def test_names_that_exist_are_part_of_the_evidence_of_an_exception_that_was_raised_again():
    names = {"missing": "sex", "near": ["Sex"], "known": ["Name", "Sex"]}
    chain = (("KeyError", "'sex'", "cause"),)
    raised = CaughtException("main", "KeyError", "builtins", "'sex'", chain=chain, ended_process=True, names=names)
    found = diagnose(collect_run_evidence(replace(RUN, exceptions=(raised,))), MATCHER).primary
    assert found is not None and found.symptom == "key_missing"
    assert found.evidence[0] == "sex is not among Name, Sex; similar: Sex"


@pytest.mark.parametrize(
    ("argument", "near", "page", "cause"),
    [
        ("row_limits", "row_limit", "name_misspelt", "A letter is missing"),
        ("row_limits", "rows", "removed_argument_used", "misspelt"),
        ("gpus", "gpuss", "removed_argument_used", "renamed or removed"),
    ],
)
def test_an_argument_with_a_similar_name_is_called_misspelt_unless_a_library_renamed_it(argument, near, page, cause):
    message = f"Trainer.__init__() got an unexpected keyword argument '{argument}'"
    names = {"missing": argument, "near": [near], "known": []}
    raised = CaughtException("main", "TypeError", "builtins", message, ended_process=True, names=names)
    found = diagnose(collect_run_evidence(replace(RUN, exceptions=(raised,))), MATCHER).primary
    assert found is not None and found.symptom == page
    assert cause in found.causes[0]


@pytest.mark.parametrize(("near", "page"), [([], "removed_api_used"), (["MaxPool2d"], "name_misspelt")])
def test_a_name_is_misspelt_only_where_the_recorder_found_a_similar_one(near, page):
    message = "module 'torch.nn' has no attribute 'MaxPool2D'"
    names = {"missing": "MaxPool2D", "near": near, "known": []}
    raised = CaughtException("main", "AttributeError", "builtins", message, ended_process=True, names=names)
    found = diagnose(collect_run_evidence(replace(RUN, exceptions=(raised,))), MATCHER).primary
    assert found is not None and found.symptom == page


@pytest.mark.parametrize(
    ("kind", "message", "of_library", "own"),
    [
        (
            "TypeError",
            "load() got an unexpected keyword argument 'out'",
            "removed_argument_used",
            "forward_signature_mismatch",
        ),
        (
            "AttributeError",
            "'Trainer' object has no attribute 'out'",
            "attribute_of_other_version",
            "attribute_missing",
        ),
    ],
)
def test_what_a_function_or_class_of_the_project_lacks_is_no_matter_of_versions(kind, message, of_library, own):
    for names, page in (({}, of_library), ({"own": True}, own)):
        names = {"missing": "out", "near": ["out_size"], "known": [], **names}
        raised = CaughtException("main", kind, "builtins", message, ended_process=True, names=names)
        found = diagnose(collect_run_evidence(replace(RUN, exceptions=(raised,))), MATCHER).primary
        assert found is not None and found.symptom == page


@pytest.mark.parametrize(
    ("line", "page"),
    [
        ("load_rows(path, size=29)", "forward_signature_mismatch"),
        ("pad_sequence(rows, size=29)", "removed_argument_used"),
        ("zoo.load_rows(path, size=29)", "removed_argument_used"),
    ],
)
def test_a_function_that_a_line_calls_by_its_bare_name_is_of_the_project_unless_it_is_usual(line, page):
    name = line.partition("(")[0].rpartition(".")[2]
    text = f'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n    rows = {line}\n'
    found = choose_findings(case_of(f"{text}TypeError: {name}() got an unexpected keyword argument 'size'\n"))[0]
    assert found.symptom == page


@pytest.mark.parametrize(
    ("line", "message", "page"),
    [
        ("store.rebuild(rows)", "module 'bricks.StoreModel' has no attribute 'rebuild'", "attribute_missing"),
        ("np.rebuild(rows)", "module 'numpy' has no attribute 'rebuild'", "removed_api_used"),
        ("cv2.rebuild(rows)", "module 'cv2' has no attribute 'rebuild'", "removed_api_used"),
        ("mmcv.rebuild(rows)", "module 'mmcv.ops' has no attribute 'rebuild'", "removed_api_used"),
        ("self.val_times = 3 * self.out", "'Trainer' object has no attribute 'out'", "attribute_missing"),
        ("trainer.out.close()", "'Trainer' object has no attribute 'out'", "attribute_of_other_version"),
    ],
)
def test_a_name_that_self_or_a_module_of_no_known_library_lacks_is_of_the_project(line, message, page):
    text = f'Traceback (most recent call last):\n  File "train.py", line 9, in fit\n    {line}\n'
    assert choose_findings(case_of(f"{text}AttributeError: {message}\n"))[0].symptom == page


@pytest.mark.parametrize(("name", "page"), [("coef_", "estimator_not_fitted"), ("coef", "attribute_missing")])
def test_an_attribute_that_scikit_learn_sets_in_fit_means_an_estimator_that_is_not_fitted(name, page):
    found = diagnose(read_text(f"AttributeError: 'LinearRegression' object has no attribute '{name}'"), MATCHER).primary
    assert found is not None and found.symptom == page


def test_the_message_of_a_traced_graph_is_its_last_line() -> None:
    inner = "AttributeError: module 'tensorflow' has no attribute 'log'"
    text = f"AttributeError: in user code:\n\n    /w/net.py:41 levels  *\n        return tf.log(x)\n\n    {inner}\n"
    found = choose_findings(case_of(text))[0]
    assert (found.family, found.message) == ("api_version_mismatch", "module 'tensorflow' has no attribute 'log'")
