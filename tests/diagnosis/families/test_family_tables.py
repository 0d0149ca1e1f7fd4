"""The tables of the families: every row loads, and messages of many programs that no page describes."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable

import pytest
from order_of_tests import in_one_test

from labbook.diagnosis.catalogue.matcher import Matcher
from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.diagnosis.cause_ranking import diagnose
from labbook.diagnosis.families.family_tables import (
    FOLDER,
    STEPS,
    VOCABULARY,
    load_tables,
    make_row,
    read_toml,
    title_of_family,
)
from labbook.diagnosis.families.message_family import family_of_class, family_of_message
from labbook.diagnosis.text.log_reader import read_text
from labbook.model.evidence import ObservedException
from labbook.model.run import Frame
from labbook.model.symptom import CRASH_FAMILIES

MATCHER = Matcher(load_catalogue())


def family(text: str) -> str:
    primary = diagnose(read_text(text), MATCHER).primary
    return primary.family if primary else ""


@in_one_test(
    ("wanted", "message"),
    [
        ("config_error", "ValueError: ENCODER not exist in config.py"),
        ("config_error", "NotImplementedError: optimizer [adamww] is not found"),
        ("config_error", "NotImplementedError: learning rate policy [linaer] is not implemented"),
        ("config_error", "KeyError: 'Unknown activation: gleu'"),
        ("config_error", "AssertionError: batch size must be divisible by number of GPUs"),
        ("config_error", "AssertionError: img_size must be a multiple of 32"),
        ("config_error", "ValueError: Either `dataset_name` or `train_data_dir` must be provided."),
        ("config_error", "ValueError: Only one of max_steps and max_epochs may be set"),
        ("config_error", "ValueError: args.eval_iters and args.eval_interval are mutually exclusive"),
        ("config_error", "ValueError: Training mode 'foo' does not exist"),
        ("config_error", "Exception: Could not infer model type from Namespace(arch='foo')"),
        ("config_error", "RuntimeError: Cannot use both --bf16 and --fp16"),
        ("config_error", "ValueError: Trainer: evaluation requires an eval_dataset."),
        ("config_error", "ValueError: Error: the model does not support multiple envs"),
        ("config_error", "AssertionError: Config file does not contain the section [net]"),
        ("config_error", "jsonschema.exceptions.ValidationError: 'lr' is a required property"),
        ("config_error", "voluptuous.error.MultipleInvalid: expected int for dictionary value @ data['repeats']"),
        ("data_empty", "AssertionError: not found any coco record in dataset/annotations/train.json"),
        ("data_empty", "AssertionError: No images in directory"),
        ("data_empty", "ValueError: After filtering, no training examples remain"),
        ("data_empty", "ValueError: The length of train_dataset is 0. Please check your dataset"),
        ("data_decode_error", "RuntimeError: Image decode failed: a.jpg"),
        ("data_decode_error", "Exception: Failed to parse annotation"),
        ("data_decode_error", "RuntimeError: sampling rates mismatch: 22050 vs 48000"),
        ("data_decode_error", "ValueError: bbox xmin should be less than xmax, got [10, 10, 5, 20]"),
        ("data_decode_error", "ValueError: Data line does not contain the expected number of elements."),
        ("data_decode_error", "AssertionError: line 3 must have two columns: 'a'"),
        ("data_decode_error", "wave.Error: file does not start with RIFF id"),
        ("missing_dependency", "RuntimeError: torch_scatter is not available, please install it"),
        ("missing_dependency", "ValueError: Please make sure you have `sentencepiece` installed"),
        ("api_version_mismatch", "AssertionError: PaddleDetection needs PaddlePaddle version >= 2.2 but got 2.0.1"),
        ("api_version_mismatch", "RuntimeError: This version of fairseq requires PyTorch 1.5 or newer"),
        ("api_version_mismatch", "RuntimeError: MPS: power of int64 is supported natively starting from macOS 13.2."),
        ("nan_or_inf", "Exception: Gradient norm is nan, abort"),
        ("nan_or_inf", "RuntimeError: NaN detected in loss"),
        ("index_out_of_range", "AssertionError: label 255 out of range for num_classes=19"),
        ("shape_mismatch", "AssertionError: predictions and labels have different lengths"),
        ("shape_mismatch", "RuntimeError: 'weight' must be 2-D"),
        ("shape_mismatch", "RuntimeError: `axis_count` must be between (0, rank_of_input)."),
        ("shape_mismatch", "ValueError: The proposed size is larger than the image size."),
        ("checkpoint_load_error", "Exception: Cannot load model parameters from checkpoint out/last.pt"),
        ("timeout", "RuntimeError: reading from the store timed out after 30 s"),
        ("type_error_user_code", "AssertionError: the space must inherit from Space"),
    ],
)
def test_whom_and_what_a_sentence_speaks_of_gives_the_family(wanted, message):
    assert family(message) == wanted
    assert family(f"训练的时候出现了{message}，请问怎么办") == wanted


@in_one_test(
    "message",
    [
        "ValueError: the answer was not 42",
        "RuntimeError: something went wrong in the model",
        "ValueError: bad input",
        "AssertionError: sanity check failed",
        "Exception: invalid state, please report this",
        "KeyError: 'model name'",
    ],
)
def test_one_common_word_gives_no_family_of_settings_or_data(message):
    assert family(message) not in {"config_error", "data_empty", "data_decode_error"}


@in_one_test(
    ("wanted", "line"),
    [
        ("config_error", "assert dataset in ['pascalvoc', 'coco2014', 'coco2017']"),
        ("config_error", "assert args.batch_size % args.world_size == 0"),
        ("config_error", 'assert self.padding_side == "left"'),
        ("data_empty", "assert len(self.ids) > 0"),
        ("data_decode_error", "assert (boxes[:, 2] >= boxes[:, 0]).all()"),
        ("file_not_found", "assert osp.isfile(path)"),
        ("shape_mismatch", "assert x.shape[-2] == num_bases(degree)"),
        (None, "assert ready"),
    ],
)
def test_the_line_of_an_assert_says_what_was_asked(wanted, line):
    raised = ObservedException("AssertionError", "", frames=(Frame("/home/a/train.py", 3, "main", line, user=True),))
    reading = family_of_message(raised)
    assert (reading.family if reading else None) == wanted


@in_one_test(
    ("wanted", "ending"),
    [
        ("illegal_instruction_or_segfault", "{}"),
        ("illegal_instruction_or_segfault", "{}. Possible causes include a driver"),
        (None, "Some common causes include: (1) memory, (2) {}"),
        (None, "Possible reasons: {}"),
    ],
)
def test_a_list_of_possible_causes_is_evidence_of_none(wanted, ending):
    message = "It has gone. " + ending.format("the worker crashed unexpectedly due to SIGSEGV or another error")
    reading = family_of_message(ObservedException("WorkerError", message))
    assert (reading.family if reading else None) == wanted


def test_a_class_of_python_says_nothing_and_one_of_a_library_does():
    assert family_of_class("", "TypeError") is None
    assert family_of_class("", "ValueError") is None
    assert family_of_class("omegaconf.errors", "MissingMandatoryValue") == "config_error"
    assert family_of_class("zipfile", "BadZipFile") == "data_decode_error"


FAMILY_FILES = sorted(path for path in FOLDER.glob("*.toml") if path.stem != VOCABULARY)


def test_every_family_has_a_table():
    assert {path.stem for path in FAMILY_FILES} == set(CRASH_FAMILIES)


@in_one_test("path", FAMILY_FILES, ids=lambda path: path.stem)
def test_every_row_of_a_table_loads(path):
    table = read_toml(path)
    assert title_of_family(path.stem, "en") == table["title"] and title_of_family(path.stem, "zh") == table["title_zh"]
    assert set(table) <= {"title", "title_zh", "codes", "names", "packages", *STEPS}
    for step in STEPS:
        for values in table.get(step, []):
            assert any(key in values for key in ("any", "near", "differ", "versus", "apart", "counts")), values
            assert make_row(path.stem, values).fits("") in (False, True)
            assert not any(re.search(pattern, "") for pattern in values.get("any", ()) if "{" not in pattern), values


def test_a_code_or_class_belongs_to_one_family():
    known: dict[tuple[str, object], str] = {}
    for path in FAMILY_FILES:
        table = read_toml(path)
        for kind, listed in {**table.get("codes", {}), **table.get("names", {})}.items():
            for one in listed:
                assert known.setdefault((kind, one), path.stem) == path.stem, (kind, one)


@pytest.mark.process
def test_a_table_is_read_when_a_message_needs_it_and_not_before():
    code = (
        "import labbook.diagnosis.cause_ranking\n"
        "from labbook.diagnosis.families.family_tables import load_tables\nprint(load_tables.cache_info().currsize)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"
    assert load_tables() is load_tables()


def test_a_traceback_after_an_interruption_is_the_failure():
    stopped = 'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    f()\nKeyboardInterrupt\n'
    failed = (
        'Traceback (most recent call last):\n  File "a.py", line 9, in <module>\n    net(x)\n'
        "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    )
    assert family(stopped) == "interrupted"
    assert family(f"{stopped}\nThen with a larger batch:\n{failed}") == "cuda_oom"
    assert family(f"{failed}\n{stopped}") == "cuda_oom"


def test_an_empty_pickle_belongs_to_the_loader_that_started_a_worker():
    assert family("EOFError: Ran out of input") == "checkpoint_load_error"
    title = "EOFError: Ran out of input with num_workers>0 on Windows\n\n"
    frames = (
        '  File "train.py", line 150, in main\n    for x in train_loader:\n'
        '  File "C:\\py\\lib\\multiprocessing\\process.py", line 121, in start\n    self._popen = self._Popen(self)\n'
    )
    assert family(title + frames) == "pickling_error"
    child = '  File "/usr/lib/multiprocessing/spawn.py", line 126, in _main\n    self = pickle.load(from_parent)\n'
    assert family(f"Traceback (most recent call last):\n{child}EOFError: Ran out of input") == "pickling_error"


def test_what_a_description_of_a_change_quotes_has_not_happened():
    quoted = "```\nRuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n```\n"
    assert family(f"Fix the memory use of the loader\n\nBefore this change:\n{quoted}") == ""
    assert family(f"Training stops\n\n{quoted}") == "cuda_oom"
    assert family(f"Fix needed? My training stops\n\n{quoted}") == "cuda_oom"


def test_a_launcher_that_tells_no_reason_gives_none():
    text = (
        "ABORT!!! Out of all 4 trainers, the trainer process with rank=[3] was aborted. Please check its log.\n"
        "INFO 2021-05-24 17:17:17,615 launch_utils.py:307] terminate all the procs\n"
    )
    assert family(text) in ("", "other")


def test_colab_and_editors_write_files_as_links():
    head = "ValueError                                Traceback (most recent call last)\n"
    colab = head + (
        "[<ipython-input-2-3f8c>](https://localhost:8080/#) in <cell line: 3>()\n      1 x\n----> 3 train()\n\n"
        "[/content/train.py](https://localhost:8080/#) in train()\n     11 a\n---> 12     check()\n\n"
        "ValueError: odd\n"
    )
    editor = head + (
        "Cell In[3], line 6\n----> 6 train()\n\n"
        "File [l:\\work\\train.py:377](file:///l:/work/train.py:377), in train(self)\n--> 377 check()\n\n"
        "ValueError: odd\n"
    )
    for text, file in ((colab, "/content/train.py"), (editor, "l:\\work\\train.py")):
        (raised,) = read_text(text).exceptions
        assert (raised.type, raised.frames[-1].file) == ("ValueError", file)


def test_statuses_and_signals_told_in_passing():
    assert family("进程已结束，退出代码Oxc0000005") == "illegal_instruction_or_segfault"
    glog = (
        "W0120 16:05:09.044921 43170 init.cc:206] *** SIGSEGV (@0x0) received by PID 43087 from PID 0; stack trace: ***"
    )
    assert family(glog) == "illegal_instruction_or_segfault"


@in_one_test(
    ("wanted", "message"),
    [
        ("index_out_of_range", "ValueError: (OutOfRange) something about the slot, but received 5."),
        ("unsupported_op", "RuntimeError: (Unimplemented) this is for later."),
        ("shape_mismatch", "ValueError: (InvalidArgument) The Input(X)'s dims is wrong for this layer."),
        ("dtype_mismatch", "InvalidArgumentError: data type of y is not as wanted"),
        ("shape_mismatch", "paddle.fluid.core.EnforceNotMet: enforce framework::product(lr_dims) == 1 failed, 0 != 1"),
        ("", "ValueError: (InvalidArgument) odd."),
    ],
)
def test_the_codes_and_checks_of_paddle(wanted, message):
    assert family(message) == wanted


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ("type_error_user_code", "训练时出现 KeyError'image' 怎么解决"),
        ("type_error_user_code", "I got \"KeyError('param_groups')\", is the file broken?"),
        ("index_out_of_range", "RuntimeError: Caught IndexError in DataLoader worker process 3."),
    ],
)
def test_classes_and_messages_in_odd_forms(wanted, text):
    assert family(text) == wanted


def test_lessons_and_cases_are_no_failures():
    assert (
        family("If you set the rate too high, the loss will diverge and produces NaN. Large steps can lead to NaN.")
        == ""
    )
    assert family(
        "It prints a message. In case A: ValueError: file too old. In case B: RuntimeError: CUDA out of memory."
    ) in (
        "",
        "other",
    )


def test_a_program_that_exits_in_a_cell_fails_for_what_it_raised():
    text = (
        "AssertionError: CUDA out of memory\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        "SystemExit                                Traceback (most recent call last)\n\n"
        "SystemExit: 1\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        "TypeError                                 Traceback (most recent call last)\n"
        "[/usr/lib/python3/dist-packages/IPython/core/ultratb.py](https://localhost:8080/#) in find_recursion(a, b)\n"
        "--> 382         return len(records), 0\n\n"
        "TypeError: object of type 'NoneType' has no len()\n"
    )
    assert [raised.type for raised in read_text(text).exceptions] == ["AssertionError"]


def test_what_a_sentence_says_takes_the_place_of_what_its_class_would_mean():
    found = diagnose(read_text("NotImplementedError: optimizer [adamww] is not found"), MATCHER).findings
    assert [one.family for one in found] == ["config_error"]


@in_one_test(
    ("wanted", "text"),
    [
        ("config_error", "AssertionError: ZeRO-3 is not compatible with pipeline parallelism"),
        ("config_error", "NotImplementedError: DeepSpeed Zero3 is not compatible with LoRA merging"),
        ("config_error", "ValueError: DeepSpeed Zero-3 is not compatible with `low_cpu_mem_usage=True`."),
        ("config_error", "AssertionError: recompute is only supported when use_amp is False"),
        ("config_error", "RuntimeError: use_distributed_optimizer requires DDP with contiguous buffers"),
        ("config_error", "ValueError: Environment variable NCCL_DEBUG_LEVEL must be an integer, got 'true'"),
        (
            "config_error",
            "absl.flags.IllegalFlagValueError: flag --batch_size=a: invalid literal for int() with base 10",
        ),
        (
            "config_error",
            'Traceback (most recent call last):\n  File "train.py", line 10, in <module>\n'
            '    rank = int(os.environ["LOCAL_RANK"])\nValueError: invalid literal for int() with base 10: "x"',
        ),
        (
            "data_decode_error",
            'Traceback (most recent call last):\n  File "data.py", line 10, in read\n'
            "    label = int(line.split()[1])\nValueError: invalid literal for int() with base 10: 'dog'",
        ),
    ],
)
def test_settings_that_do_not_go_together_and_values_that_are_none(
    family_of: Callable[[str], str], wanted: str, text: str
) -> None:
    assert family_of(text) == wanted
