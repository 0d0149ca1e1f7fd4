"""What holds in a run decides which cause of a loss that is no number is named first."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import pytest
from order_of_tests import in_one_test

from labbook.diagnosis.catalogue.matcher import Matcher
from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.diagnosis.cause_ranking import diagnose
from labbook.diagnosis.run_evidence import collect_run_evidence
from labbook.diagnosis.service import read_log
from labbook.diagnosis.text.log_reader import read_text
from labbook.model.events.inspection_kinds import Flight
from labbook.model.events.training_kinds import Evaluation
from labbook.model.message import Message
from labbook.model.run import CaughtException, CheckResult, Frame, Framework, Process, Run
from labbook.model.signals import Signals

RUN = Run("i", "finished", ("python", "a.py"), "/w", 0.0, ended=12.0, script="a.py")
WIDTH = "mat1 and mat2 shapes cannot be multiplied (4x8 and 10x2)"
POOL_DIED = "A process in the process pool was terminated abruptly"
NO_SHARD = "The size of tensor a (0) must match the size of tensor b (96) at non-singleton dimension 1"
WRONG = CheckResult("loss_nonfinite", "loss is finite", "", "9 of 99 values", "fail", family="numeric", tier=1)


def _norms(*values: float) -> list[dict[str, float]]:
    return [{"step": step, "grad_norm": value} for step, value in enumerate(values)]


@in_one_test(
    ("flight", "cause"),
    [
        ({"op": "Neg <- Mean <- Log <- Sigmoid", "recent": _norms(0.7, 0.4, 0.6, 0.44)}, "logarithm"),
        ({"op": "log", "recent": []}, "logarithm"),
        ({"op": "Neg <- Mean <- Log! <- Sub", "recent": []}, "logarithm"),
        ({"op": "Neg <- Mul! <- Log <- Softmax", "recent": []}, "learning rate"),
        ({"op": "Log <- Softmax", "recent": _norms(0.7, 0.9, 90.0, 4e5)}, "learning rate"),
        ({"op": "LogSoftmax", "recent": _norms(1.0, 1.1)}, "learning rate"),
        ({}, "learning rate"),
        ({"step": 1, "trigger": "loss"}, "The batch contains"),
        ({"step": 2, "trigger": "loss"}, "learning rate"),
    ],
)
def test_the_likeliest_cause_for_this_run_comes_first(flight: dict[str, object], cause: str) -> None:
    run = dataclasses.replace(RUN, checks=(WRONG,), signals=(Signals("torch", flight=flight),))
    found = diagnose(collect_run_evidence(run), Matcher(load_catalogue())).findings[0]
    assert found.symptom == "loss_nonfinite" and cause in found.causes[0]
    # The program's own check of the same value: the flight recorder knows the operation of any plain function.
    raised = CaughtException("main", "AssertionError", "builtins", "score is nan at step 6", ended_process=True)
    stopped = dataclasses.replace(run, status="failed", exceptions=(raised,))
    found = diagnose(collect_run_evidence(stopped), Matcher(load_catalogue())).findings[0]
    assert found.symptom == "nonfinite_value_found"
    assert ("epsilon" in found.causes[0]) == (cause == "logarithm")


@pytest.mark.parametrize(
    ("verdict", "cause"), [("ok", "no longer match"), ("fail", "does not depend"), ("", "does not depend")]
)
def test_outputs_that_differ_are_no_cause_of_a_loss_at_chance(verdict: str, cause: str) -> None:
    stuck = dataclasses.replace(WRONG, id="loss_at_chance", family="convergence", tier=2)
    outputs = dataclasses.replace(WRONG, id="activation_collapse", verdict=verdict, family="activation", tier=3)
    run = dataclasses.replace(RUN, checks=(stuck, outputs))
    found = diagnose(collect_run_evidence(run), Matcher(load_catalogue())).findings
    (at_chance,) = [one for one in found if one.symptom == "loss_at_chance"]
    assert cause in at_chance.causes[0]
    assert any("does not depend" in one for one in at_chance.causes) == (verdict != "ok")


@pytest.mark.parametrize(
    ("refused", "first"),
    [("numpy._core.multiarray.scalar", "float(value)"), ("numpy.dtype", "float(value)"), ("net.Net", "add_safe")],
)
def test_the_first_cure_of_a_refused_checkpoint_fits_what_is_refused(refused: str, first: str) -> None:
    text = f"Weights only load failed. Unsupported global: GLOBAL {refused} was not an allowed global by default."
    raised = CaughtException("main", "UnpicklingError", "_pickle", text, ended_process=True)
    run = dataclasses.replace(RUN, status="failed", exceptions=(raised,))
    found = diagnose(collect_run_evidence(run), Matcher(load_catalogue())).findings[0]
    assert found.symptom == "checkpoint_weights_only_blocked" and first in found.fixes[0]


@in_one_test(
    ("step", "wrapper", "cause"),
    [(1, "", "its own weights"), (1, "DistributedDataParallel", "inner model"), (7, "", "inner model")],
)
def test_ranks_that_began_apart_drew_their_own_weights(step: int, wrapper: str, cause: str) -> None:
    own = {"detail": Message("health.replica_divergence.began_apart")}
    apart = dataclasses.replace(
        WRONG, id="replica_divergence", detail="Do this.", where={"step": step}, run_messages=own
    )
    signals = Signals("torch", loop={"wrapper": wrapper} if wrapper else {})
    run = dataclasses.replace(RUN, checks=(apart,), signals=(signals,))
    found = diagnose(collect_run_evidence(run), Matcher(load_catalogue())).findings[0]
    assert cause in found.causes[0] and found.fixes[0] == "Do this."


@pytest.mark.parametrize(
    ("kind", "trigger", "late"), [("cuda", "parameter", True), ("cuda", "loss", False), ("cpu", "parameter", False)]
)
def test_of_a_value_that_a_gpu_told_too_late_the_first_advice_is_to_wait_for_it(
    kind: str, trigger: str, late: bool
) -> None:
    framework = Framework("torch", "2.11.0", devices=({"kind": kind, "name": "x"},))
    flight: Flight = {"trigger": trigger, "finding": "bad parameters", "recent": []}
    run = dataclasses.replace(RUN, checks=(WRONG,), frameworks=(framework,), signals=(Signals("torch", flight=flight),))
    found = diagnose(collect_run_evidence(run), Matcher(load_catalogue())).findings[0]
    assert ["--debug deep" in fix for fix in found.fixes] == [late, *[False] * 3, *[False] * late]


@in_one_test(
    ("raised", "written", "steps", "validation"),
    [(5.0, 5.1, 8, True), (5.0, 4.9, 8, False), (5.0, 5.1, 0, False), (None, 5.1, 8, False)],
)
def test_a_run_failed_in_validation_where_the_phase_was_still_open(
    raised: float | None, written: float, steps: int, validation: bool
) -> None:
    caught = CaughtException("main", "RuntimeError", "builtins", "", pid=7, t=raised or 0.0, ended_process=bool(raised))
    phases: tuple[Evaluation, ...] = ({"t": 2.0, "end_step": 4}, {"t": written, "end_step": 8})
    run = dataclasses.replace(
        RUN,
        status="failed",
        exceptions=(caught,),
        processes=(Process(7, 1, ("a.py",), "main", steps=steps),),
        signals=(Signals("torch", pid=7, evaluations=phases),),
    )
    assert ("validation" in collect_run_evidence(run).conditions) is validation


def test_a_batch_that_is_not_finite_is_the_cause() -> None:
    batch = dataclasses.replace(WRONG, id="nonfinite_input")
    run = dataclasses.replace(RUN, checks=(WRONG, batch))
    found = next(
        f
        for f in diagnose(collect_run_evidence(run), Matcher(load_catalogue())).findings
        if f.symptom == "loss_nonfinite"
    )
    assert "batch" in found.causes[0]


WRAPPED = "'DistributedDataParallel' object has no attribute"


@pytest.mark.parametrize(
    ("file", "source", "message", "symptom"),
    [
        ("src/grove/__init__.py", "from ._plan import a", "No module named 'grove._plan'", "extension_not_built"),
        ("train.py", "from grove._plan import a", "No module named 'grove._plan'", "removed_module_imported"),
        ("src/grove/__init__.py", "from .plan import a", "No module named 'grove.plan'", "removed_module_imported"),
        ("src/grove/io.py", "load(path)", "No module named 'grove._plan'", "removed_module_imported"),
        ("src/grove/io.py", "kind[name]", "'llama'", "key_missing"),
        ("io.py", "model.dtype", f"{WRAPPED} 'dtype'. Did you mean: 'type'?", "attribute_missing"),
        ("site-packages/transformers/models/auto/a.py", "MAP[name]", "'llama'", "model_newer_than_library"),
    ],
)
def test_the_file_that_lacks_a_module_or_key_chooses_the_page(file, source, message, symptom):
    kind = "ModuleNotFound" if "module" in message else "Attribute" if "object" in message else "Key"
    text = f'Traceback (most recent call last):\n  File "/{file}", line 3, in <module>\n    {source}\n'
    text += f"{kind}Error: {message}\n"
    found = diagnose(read_text(text), Matcher(load_catalogue())).primary
    assert found is not None and found.symptom == symptom


@pytest.mark.parametrize(
    ("module", "file", "symptom"),
    [
        ("paddleseg", "paddleseg/cvlibs/config.py", "import_path_wrong"),
        ("layers", "src/layers.py", "import_path_wrong"),
        ("layers.attention", "layers/attention.py", "import_path_wrong"),
        ("einops", "layers.py", "import_module_missing"),
        ("images", "images/0001.png", "import_module_missing"),
        ("grove.boxes", "grove/boxes.pyx", "extension_not_built"),
        ("grove.boxes", "src/grove/boxes.cpp", "extension_not_built"),
        ("grove.boxes", "grove/boxes.py", "import_path_wrong"),
        ("grove.boxes", "grove/boxes.h", "removed_module_imported"),
        ("grove.cython.boxes", "setup.py", "extension_not_built"),
    ],
)
def test_a_module_that_lies_in_the_project_is_missing_on_the_path(
    tmp_path: Path, module: str, file: str, symptom: str
) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).touch()
    raised = CaughtException("main", "ModuleNotFoundError", "", f"No module named '{module}'", ended_process=True)
    run = dataclasses.replace(RUN, status="failed", cwd=str(tmp_path), exceptions=(raised,))
    found = diagnose(collect_run_evidence(run), Matcher(load_catalogue())).findings[0]
    assert found.symptom == symptom
    assert ("pip install einops" in " ".join(found.fixes)) == (module == "einops")


@pytest.mark.parametrize(
    ("message", "package"),
    [
        ("No module named 'skimage'", "scikit-image"),
        ("Requirement 'typer[all]>=0.9' not met. HINT: Try running `pip install -U 'typer[all]>=0.9'`", "typer[all]"),
        ("Requirement 'torchmetrics' not met.", "torchmetrics"),
    ],
)
def test_the_fix_names_the_package_of_a_module(message: str, package: str) -> None:
    raised = CaughtException("main", "ModuleNotFoundError", "", message, ended_process=True)
    run = dataclasses.replace(RUN, status="failed", exceptions=(raised,))
    fixes = diagnose(collect_run_evidence(run), Matcher(load_catalogue())).findings[0].fixes
    assert f"pip install {package}`" in fixes[0] and ("import skimage" in fixes[0]) == ("skimage" in message)


@in_one_test(
    ("message", "cause"),
    [
        ("The size of tensor a (10) must match the size of tensor b (20) at non-singleton dimension 0", "batch size"),
        ("The size of tensor a (10) must match the size of tensor b (20) at non-singleton dimension 3", "branches"),
        ("operands could not be broadcast together with shapes (32,10) (20,10) ", "batch size"),
        ("operands could not be broadcast together with shapes (32,10) (32,5) ", "branches"),
        ("Input batch size 10 doesn't match hidden0 batch size 32", "another batch size"),
        ("you tried to allocate 18874368000000 bytes. DefaultCPUAllocator: can't allocate memory", "far beyond"),
        ("The shape of the 2D attn_mask is torch.Size([7, 7]), but should be (8, 8).", "mask was built"),
        ("embed_dim must be divisible by num_heads", "multiple of the number of heads"),
        ("Expected input_lengths to have value at most 12, but got value 16", "lengths are invalid"),
        ("Key 'optim' is not in struct", "misspelt"),
        ("mapping values are not allowed here", "not valid YAML"),
        ("X has 4 features, but Ridge is expecting 5 features as input.", "other columns"),
        ("weight tensor should be defined either for all 4 classes or no classes", "class weights"),
        ("'list' object cannot be interpreted as an integer", "tuple, list or dict"),
        ("Environment version `v0` for `Pendulum` is deprecated. Please use `Pendulum-v1` instead.", "was removed"),
        ("Environment version `v9` for environment `CartPole` doesn't exist.", "was removed"),
        ("Environment `MyEnv` doesn't exist.", "not imported before"),
        ("Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000", "two ranks use the same GPU"),
        ("[Errno 11] Unable to synchronously open file (unable to lock file, errno = 11)", "locked"),
    ],
)
def test_the_numbers_and_words_of_a_message_choose_the_cause(message: str, cause: str) -> None:
    if "you tried" in message:
        message = "DefaultCPUAllocator: can't allocate memory: " + message.partition(" Default")[0]
    raised = CaughtException("main", "RuntimeError", "builtins", message, ended_process=True)
    run = dataclasses.replace(RUN, status="failed", exceptions=(raised,))
    assert cause in diagnose(collect_run_evidence(run), Matcher(load_catalogue())).findings[0].causes[0]


@pytest.mark.parametrize(("free", "cause"), [(True, "kill -9"), (False, "memory")])
def test_a_kill_without_a_sign_of_full_memory_is_somebodys(free: bool, cause: str) -> None:
    ending = {"memory": "the sender is unknown", **({"memory_free": True} if free else {})}
    run = dataclasses.replace(RUN, status="killed", signal="SIGKILL", captured={"ending": ending})
    assert cause in diagnose(collect_run_evidence(run), Matcher(load_catalogue())).findings[0].causes[0]


def test_a_missing_key_of_a_configuration_has_the_cause_of_a_missing_key() -> None:
    frame = Frame("/w/fit.py", 4, "<module>", "rate = config['optim']['rate']", user=True)
    raised = CaughtException("main", "KeyError", "builtins", "'optim'", (frame,), ended_process=True)
    run = dataclasses.replace(RUN, status="failed", exceptions=(raised,))
    found = diagnose(collect_run_evidence(run), Matcher(load_catalogue())).findings[0]
    assert found.family == "config_error" and "configuration" in found.causes[0] and found.fixes


@in_one_test(
    ("condition", "cause"),
    [
        ("t >= 0 && t < n_classes", "class label"),
        ("cur_target >= 0 && cur_target < n_classes", "class label"),
        ("srcIndex < srcSelectDimSize", "index into an embedding"),
        ('-sizes[i] <= index && index < sizes[i] && "index out of bounds"', "index into an embedding"),
        ("idx_dim >= 0 && idx_dim < index_size", "index into an embedding"),
        ("input_val >= zero && input_val <= one", "outside 0 to 1"),
        ("input >= 0. && input <= 1.", "outside 0 to 1"),
    ],
)
def test_the_assertion_of_a_kernel_tells_the_cause_whatever_the_exception_is(condition: str, cause: str) -> None:
    kernel = (
        f"aten/src/ATen/native/cuda/Some.cu:15: some: block: [0,0,0], thread: [1,0,0] Assertion `{condition}` failed."
    )
    raised = 'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n    x.sum().item()\n'
    text = f"{kernel}\n{raised}torch.AcceleratorError: CUDA error: device-side assert triggered\n"
    found = diagnose(read_log(io.BytesIO(text.encode())), Matcher(load_catalogue())).findings[0]
    assert found.symptom == "cuda_device_assert" and cause in found.causes[0]
    assert found.evidence[0].startswith("the failed condition is " + condition[:12])


@in_one_test(
    ("line", "message", "symptom"),
    [
        ("x = torch.as_tensor([obs])", "ValueError: expected sequence of length 8 at dim 2 (got 0)", "env_api_changed"),
        ("x = torch.as_tensor(rows)", "ValueError: expected sequence of length 8 at dim 1 (got 0)", "ragged_data"),
        ("x = torch.as_tensor(obs)", "ValueError: expected sequence of length 8 at dim 1 (got 5)", "ragged_data"),
        ("o, r, done, info = env.step(a)", "ValueError: too many values to unpack (expected 4)", "env_api_changed"),
        ("x, y = batch", "ValueError: too many values to unpack (expected 2)", "batch_structure_mismatch"),
        ("h, w = x[4:]", "ValueError: not enough values to unpack (expected 2, got 0)", "batch_structure_mismatch"),
        ("x, y = zip(*rows)", "ValueError: not enough values to unpack (expected 2, got 0)", "dataset_empty"),
        ("import fit", "ImportError: cannot import name 'fold' from 'utils' (/home/li/utils.py)", "name_undefined"),
        ("utils.fold()", "AttributeError: module 'utils' has no attribute 'fold'", "attribute_missing"),
        ("raise SyntaxError(text)", "SyntaxError: 'epoch' is no option of the trainer", "config_file_invalid"),
        ("if x == 3", "SyntaxError: expected ':'", "syntax_error"),
        ("raise child_exception_type(err)", "FileNotFoundError: [Errno 2] No such file: 'sox'", "command_not_found"),
        ("from . import x", "ImportError: cannot import name '_imaging' from 'PIL' (PIL/x.py)", "extension_not_built"),
        ("make_optimizer()", "NameError: name 'AdapterSettings' is not defined", "name_undefined"),
        ("open(path)", "FileNotFoundError: [Errno 2] No such file or directory: 'shard-3.bin'", "file_not_found"),
    ],
)
def test_the_line_that_raised_a_message_chooses_the_page(line: str, message: str, symptom: str) -> None:
    text = f'Traceback (most recent call last):\n  File "/srv/play.py", line 8, in main\n    {line}\n{message}\n'
    assert diagnose(read_text(text), Matcher(load_catalogue())).findings[0].symptom == symptom


@in_one_test(
    ("file", "function", "message", "symptom"),
    [
        (
            "torch/serialization.py",
            "find_class",
            "ModuleNotFoundError: No module named 'nets'",
            "checkpoint_class_not_found",
        ),
        (
            "importlib/__init__.py",
            "import_module",
            "ModuleNotFoundError: No module named 'nets'",
            "import_module_missing",
        ),
        ("torch\\onnx\\utils.py", "export", "KeyError: 'UNKNOWN_SCALAR'", "onnx_export_unsupported"),
        ("fit.py", "export", "KeyError: 'UNKNOWN_SCALAR'", "key_missing"),
        ("pip/_vendor/pyproject_hooks/x.py", "main", "KeyError: '__version__'", "extension_build_failed"),
        ("zarr/core/group.py", "getitem", "FileNotFoundError: labels", "key_missing"),
        ("fit.py", "getitem", "FileNotFoundError: labels", "file_not_found"),
        ("deepspeed/engine.py", "backward", f"RuntimeError: {NO_SHARD}", "sharded_parameters_misused"),
        ("fit.py", "backward", f"RuntimeError: {NO_SHARD}", "shape_mismatch_broadcast"),
        ("trl/utils.py", "configure", "NameError: name 'AdapterSettings' is not defined", "import_module_missing"),
        ("detector/ops.py", "forward", "NameError: name '_C' is not defined", "extension_not_built"),
        (
            "keras/base.py",
            "build",
            "AttributeError: 'Pool' object has no attribute '_sp'",
            "attribute_of_other_version",
        ),
        ("keras/x.py", "build", "AttributeError: 'list' object has no attribute '_s'", "attribute_missing"),
        ("gymnasium/vector.py", "reset", "ValueError: too many values to unpack (expected 2)", "env_api_changed"),
        ("torch/utils/cpp_extension.py", "load", "ImportError: No module named 'ops'", "extension_build_failed"),
        ("torch/_inductor/codecache.py", "result", f"BrokenProcessPool: {POOL_DIED}", "compile_backend_failed"),
        ("concurrent/futures/_base.py", "result", f"BrokenProcessPool: {POOL_DIED}", "dataloader_worker_killed"),
    ],
)
def test_the_files_and_functions_of_a_traceback_choose_the_page(
    file: str, function: str, message: str, symptom: str
) -> None:
    own = 'Traceback (most recent call last):\n  File "run.py", line 8, in <module>\n    main()\n'
    text = f'{own}  File "/env/site-packages/{file}", line 8, in {function}\n    return inner(name)\n{message}\n'
    assert diagnose(read_text(text), Matcher(load_catalogue())).findings[0].symptom == symptom


@in_one_test(
    ("raised", "symptom"),
    [
        ("backend='inductor' raised:\nTypeError: 'NoneType' object is not iterable", "compile_backend_failed"),
        ("x\nInductorError: NameError: name '_tl' is not defined", "compile_backend_failed"),
        (
            "backend='inductor' raised:\nRuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 10x2)",
            "shape_mismatch_linear",
        ),
    ],
)
def test_a_programming_error_inside_a_compiler_is_no_error_of_the_program(raised: str, symptom: str) -> None:
    text = f'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nBackendCompilerFailed: {raised}\n'
    found = diagnose(read_text(text), Matcher(load_catalogue())).findings[0]
    assert found.symptom == symptom


def test_the_message_of_a_finding_is_the_line_that_fits_not_the_first_of_its_block() -> None:
    text = "Collecting nerfacc\n  Downloading nerfacc.tar.gz\nERROR: No matching distribution found for torch==1.4\n"
    found = diagnose(read_text(text), Matcher(load_catalogue())).findings[0]
    assert (found.symptom, found.tier) == ("pip_no_distribution", 1)
    assert found.message == "ERROR: No matching distribution found for torch==1.4"
