"""Outputs of many tools, read: the class, the clean message, the innermost line of the user, what stands behind it."""

from __future__ import annotations

import html
import json
from pathlib import Path

import pytest
from order_of_tests import in_one_test

from labbook.diagnosis.text.log_reader import read_text
from labbook.model.evidence import Evidence, ObservedException

LOGS = Path(__file__).resolve().parents[2] / "data" / "logs"
LINEAR = "mat1 and mat2 shapes cannot be multiplied (4x8 and 10x2)"

TRACE = 'Traceback (most recent call last):\n  File "t.py", line 1, in f\n    assert x\n'

# file: what the last exception is, its message's beginning, the innermost frame of the user, what it quotes
SHAPES = {
    "python_2.7": ("ValueError", "no weights in this file", "plain.py:10 outer", ""),
    "python_3.8": ("ValueError", "no weights in this file", "plain.py:10 outer", ""),
    "python_3.13": ("ValueError", "no weights in this file", "plain.py:10 outer", ""),
    "recursion_3.12": ("RuntimeError", "too deep\nsee above", "rec.py:6 <module>", ""),
    "syntax_3.12": ("SyntaxError", "invalid syntax", "syn.py:1 ", ""),
    "torch_worker": (
        "RuntimeError",
        "Caught RuntimeError in DataLoader worker process 0.",
        "tl.py:8 <module>",
        "RuntimeError",
    ),
    "torch_state_dict": (
        "RuntimeError",
        "Error(s) in loading state_dict for Linear:\n\tMissing key(s)",
        "tl.py:9 <module>",
        "",
    ),
    "torch_spawn": ("ProcessRaisedException", "-- Process 0 terminated", "tl.py:12 <module>", "RuntimeError"),
    "torch_dynamo": ("Unsupported", "Data-dependent branching\n", "tl.py:17 f", ""),
    "torch_script": ("RuntimeError", "The following operation failed", "tl.py:24 <module>", "RuntimeError"),
    "torchrun": ("ChildFailedError", "====", "", ""),
    "torchrun_error_file": ("ChildFailedError", "====", "", "ValueError"),
    "joblib": ("IndexError", "list index out of range", "job.py:5 <module>", "IndexError"),
    "futures": ("IndexError", "list index out of range", "job.py:7 <module>", "IndexError"),
    "ipython_5": ("RuntimeError", "size mismatch, m1: [4 x 8]", "<ipython-input-6-aa>:5 forward", ""),
    "ipython_8": ("RuntimeError", LINEAR, "In[9]:5 Net.forward", ""),
    "ipython_9_cell": ("RuntimeError", "mat1 and mat2 shapes", "In[2]:2 f", ""),
    "ipython_9": ("ZeroDivisionError", "division by zero", "nb.py:3 f", ""),
    "rich_15": ("KeyError", "'k'", "r.py:4 f", ""),
    "pytest_9": ("AssertionError", "assert 1 == 2", "test_p.py:7 test_b", ""),
    "paddle_matmul": ("ValueError", "(InvalidArgument) In operator matmul, the [1] dimension", "pd.py:9 <module>", ""),
    "paddle_call_stack_2": ("ValueError", "InvalidArgumentError: In operator matmul", "pd.py:11 <module>", ""),
    "paddle_fluid_1.8": ("InvalidArgumentError", "After flatten the input tensor X and Y", "train.py:210 <module>", ""),
    "paddle_segv": ("FatalError", "`Segmentation fault` is detected", "", ""),
    "faulthandler_3.11": ("", "Fatal Python error: Segmentation fault", "fh.py:2 crash", ""),
    "ray": ("RayTaskError", "ray::RayTrainWorker._execute()", "tune.py:31 <module>", "RuntimeError"),
    "srun": ("RuntimeError", "CUDA error: out of memory", "train.py:8 <module>", ""),
    "pasted_line_numbers": ("RuntimeError", "CUDA error: out of memory", "train.py:8 <module>", ""),
    "kubernetes": ("ModuleNotFoundError", "No module named 'foo'", "/app/train.py:5 <module>", ""),
    "tqdm": ("RuntimeError", "element 0 of tensors", "train.py:5 <module>", ""),
    "windows_pycharm": ("EOFError", "Ran out of input", "train.py:5 <module>", ""),
    "flattened": ("RuntimeError", "Expected object of backend CPU", "train.py:12 main", ""),
    "markdown_fence": ("RuntimeError", "The size of tensor a (3)", "/home/u/m.py:3 f", ""),
    "quoted": ("NameError", "name 'x' is not defined", "t.py:1 <module>", ""),
    "logging": ("NameError", "name 'x' is not defined", "t.py:1 <module>", ""),
    "transformers_offline": ("OSError", "We couldn't connect to", "run.py:5 <module>", ""),
    "json_line": ("ValueError", "in json", "t.py:1 <module>", ""),
    "nvrtc": ("RuntimeError", "nvrtc: error: invalid value for --gpu-architecture (-arch)\n\nnvrtc comp", "", ""),
}


def evidence(name: str) -> Evidence:
    return read_text((LOGS / f"{name}.txt").read_text(encoding="utf-8"))


def innermost(raised: ObservedException) -> str:
    own = [frame for frame in raised.frames if frame.user]
    return f"{own[-1].file}:{own[-1].line} {own[-1].function}" if own else ""


@in_one_test("name", SHAPES)
def test_the_last_exception_of_an_output(name):
    kind, message, place, quoted = SHAPES[name]

    last = evidence(name).exceptions[-1]

    assert last.type == kind
    assert last.message.startswith(message)
    assert innermost(last).endswith(place)
    assert (last.inner.type if last.inner else "") == quoted
    assert "Traceback" not in last.message


@in_one_test("name", SHAPES)
def test_no_line_of_a_traceback_is_said_as_well(name):
    said = "\n".join(one.text for one in evidence(name).lines)

    assert "Traceback (most" not in said
    assert 'File "' not in said


def test_a_quoted_exception_has_its_own_frames_and_message():
    inner = evidence("torch_worker").exceptions[-1].inner

    assert inner.message == "stack expects each tensor to be equal size, but got [1] at entry 0 and [2] at entry 1"
    assert inner.frames[-1].function == "collate_tensor_fn"
    assert evidence("torchrun_error_file").exceptions[-1].inner.message == "three"
    assert evidence("torch_script").exceptions[-1].inner.message.startswith("mat1 and mat2")


def test_a_chain_is_told_nearest_first():
    behind = evidence("python_3.13").exceptions[-1].context

    assert [(one.type, one.message, kind) for one, kind in behind] == [("KeyError", "'weights'", "context")]
    assert [kind for _, kind in evidence("transformers_offline").exceptions[-1].context] == ["cause"]


def test_an_exception_group_gives_its_members():
    raised = evidence("exception_group_3.13").exceptions

    assert raised[0].type == "ExceptionGroup"
    assert raised[0].inner.type == "ValueError"
    assert [one.type for one in raised[1:]] == ["TypeError"]


def test_pytest_tells_each_test():
    raised = evidence("pytest_9").exceptions

    assert [(one.type, innermost(one)) for one in raised] == [
        ("RuntimeError", "test_p.py:3 f"),
        ("AssertionError", "test_p.py:7 test_b"),
    ]


def test_threads_and_finalizers_do_not_end_the_process():
    thread, finalizer = evidence("threads_3.12").exceptions

    assert (thread.type, thread.thread, thread.ended_process) == ("OSError", "writer", False)
    assert (finalizer.type, finalizer.ended_process) == ("ValueError", False)


def test_interleaved_ranks_are_told_apart():
    by_rank = {one.rank: one for one in evidence("ranks_interleaved").exceptions if one.frames}

    assert by_rank[0].message == "Connection closed by peer [10.0.0.3]:2211"
    assert by_rank[1].type == "ValueError"
    assert [frame.line for frame in by_rank[1].frames] == [8]


def test_a_watchdog_line_is_said_with_its_rank():
    said = [one for one in evidence("ranks_interleaved").lines if "Watchdog caught" in one.text]

    assert [one.rank for one in said] == [0]


def test_hosts_in_front_of_lines_are_told_apart():
    assert [one.message for one in evidence("pdsh").exceptions] == ["No module named 'foo'", "No module named 'bar'"]


def test_an_interleaved_thread_of_paddle_keeps_the_true_cause():
    raised = evidence("paddle_worker").exceptions

    worker = next(one for one in raised if one.type == "ValueError")
    assert worker.inner.message == "broken sample 0"
    assert innermost(worker.inner).endswith("pd.py:8 __getitem__")
    assert next(one for one in raised if one.type == "SystemError").message.startswith(
        "(Fatal) Blocking queue is killed"
    )


def test_a_device_assertion_is_said_and_raised():
    read = evidence("device_assert")

    assert read.exceptions[0].message.startswith("CUDA error: device-side assert triggered\nCUDA kernel errors might")
    assert read.exceptions[1].type == "c10::Error"
    assert read.exceptions[1].message == "CUDA error: device-side assert triggered"
    assert next(one for one in read.lines if "Assertion `t >= 0" in one.text).count == 2
    assert (read.ending.signal, read.ending.facts["core_dump"]) == ("SIGABRT", True)


@in_one_test(
    ("name", "code", "signal"),
    [
        ("torchrun", 1, ""),
        ("torchrun_killed", -9, "SIGKILL"),
        ("windows_pycharm", -1073741819, "SIGSEGV"),
        ("paddle_segv", None, "SIGSEGV"),
        ("faulthandler_3.11", None, "SIGSEGV"),
        ("srun", None, "SIGKILL"),
        ("flattened", None, ""),
    ],
)
def test_how_it_ended(name, code, signal):
    ending = evidence(name).ending

    assert (ending.exit_code, ending.signal) == (code, signal)


@in_one_test(
    ("text", "code", "signal"),
    [
        ("Process finished with exit code 137 (interrupted by signal 9: SIGKILL)", 137, "SIGKILL"),
        ("subprocess died with exit status -11", -11, "SIGSEGV"),
        ("Killed", None, "SIGKILL"),
        ("**Killed**", None, "SIGKILL"),
        ("run.sh: line 5: 12345 Segmentation fault      (core dumped) python train.py", None, "SIGSEGV"),
        ("[1]    4242 killed     python train.py", None, "SIGKILL"),
        ("zsh: bus error  python train.py", None, "SIGBUS"),
        ("it fell over:\n\n```Error: signal 11:\n\n/lib/libm.so.6(+0x354c0)[0x7fd1d6cd54c0]", None, "SIGSEGV"),
        ("已杀死", None, "SIGKILL"),
        ("段错误 (核心已转储)", None, "SIGSEGV"),
        ("['python', 'train.py'] exits with return code = -9", -9, "SIGKILL"),
        ("    Reason:       OOMKilled\n    Exit Code:    137", 137, "SIGKILL"),
        ("CalledProcessError: Command '['python']' died with <Signals.SIGABRT: 6>.", None, "SIGABRT"),
        ("Process finished with exit code 0", 0, ""),
    ],
)
def test_endings_in_words(text, code, signal):
    ending = read_text(text).ending

    assert (ending.exit_code, ending.signal) == (code, signal)


def test_limits_of_schedulers_are_facts():
    slurm = read_text("slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***")

    assert "TIME LIMIT" in slurm.ending.facts["time_limit"]
    assert "oom-kill" in evidence("srun").ending.facts["oom_kill"]


@in_one_test(
    ("name", "framework"),
    [("torch_worker", "torch"), ("paddle_matmul", "paddle"), ("paddle_fluid_1.8", "paddle"), ("python_3.13", "")],
)
def test_the_framework_that_a_text_speaks_of(name, framework):
    assert evidence(name).framework == framework


def test_an_exception_inside_a_sentence():
    read = read_text("大家好，训练时报错 RuntimeError：CUDA out of memory. Tried to allocate 20.00 MiB 请问怎么解决？")

    assert read.exceptions[0].type == "RuntimeError"
    assert read.exceptions[0].message.startswith("CUDA out of memory. Tried to allocate 20.00 MiB")


def test_a_message_without_a_class_is_said():
    read = read_text("it fails with\nCUDA out of memory. Tried to allocate 2.00 GiB (GPU 0;\n7.79 GiB total capacity)")

    assert not read.exceptions
    assert any(one.text.startswith("CUDA out of memory") for one in read.lines)
    # Broken over two lines, it is said as one block too.
    assert any("(GPU 0;\n7.79 GiB" in one.text for one in read.lines)


def test_prose_below_an_empty_message_is_no_part_of_it():
    read = read_text(TRACE + "AssertionError\n\nany idea?")

    assert (read.exceptions[0].type, read.exceptions[0].message) == ("AssertionError", "")
    assert [one.text for one in read.lines] == ["any idea?"]


def test_a_warning_is_no_exception():
    read = read_text(
        "/home/u/x.py:3: UserWarning: lr_scheduler.step() before optimizer.step()\n  warnings.warn(text)\n"
    )

    assert not read.exceptions
    assert [(one.kind, one.text) for one in read.lines] == [
        ("warning", "UserWarning: lr_scheduler.step() before optimizer.step()")
    ]


def test_time_stamps_on_all_lines_give_the_order():
    text = "\n".join(
        f"2026-01-02 03:0{minute}:00 [rank{rank}] ERROR {line}"
        for rank, minute in ((0, 5), (1, 4))
        for line in ("Traceback (most recent call last):", '  File "t.py", line 1, in f', f"ValueError: of {rank}")
    )

    assert [one.rank for one in read_text(text).exceptions] == [1, 0]


def test_a_last_line_repeats_no_traceback():
    text = (LOGS / "python_3.8.txt").read_text(encoding="utf-8")

    assert len(read_text(text + "\nfailed with\nValueError: no weights in this file\n").exceptions) == 1


@pytest.mark.parametrize("cut", ["first", "last"])
def test_a_cut_traceback_keeps_what_is_left(cut):
    lines = (LOGS / "torch_worker.txt").read_text(encoding="utf-8").splitlines()

    raised = read_text("\n".join(lines[9:] if cut == "first" else lines[:10])).exceptions

    assert raised
    assert (raised[-1].inner is not None) if cut == "first" else raised[-1].frames


@in_one_test(
    ("source", "kind", "message"),
    [
        ("raise ValueError(f'no such tempo: {tempo}')", "ValueError", "no such tempo: ?"),
        ('raise odd.TempoError("tempo %d is odd" % tempo)', "TempoError", "tempo ? is odd"),
        ("raise NotImplementedError", "NotImplementedError", ""),
        ("assert tempo > 0, 'the tempo is gone'", "AssertionError", "the tempo is gone"),
        ("raise caught", "", ""),
    ],
)
def test_the_last_line_of_a_cut_traceback_says_what_it_raises(source, kind, message):
    text = f'Traceback (most recent call last):\n  File "play.py", line 3, in play\n    {source}\n'

    (raised,) = read_text(text).exceptions

    assert (raised.type, raised.message) == (kind, message)


DECORATIONS = {
    "comment": "# {line}",
    "comment without a space": "#{line}",
    "C comment": "// {line}",
    "quoted comment": "> # {line}",
    "bar": "| {line}",
    "indented": "        {line}",
    "stream": "[stderr] {line}",
    "host": "gpu-node-07: {line}",
    "clock": "[08:15:{n:02d}] {line}",
    "logger": "[11/02 08:15:{n:02d} trainer]: {line}",
    "syslog": "Nov  2 08:15:{n:02d} gpu3 train[2213]: {line}",
    "mail": ">> {line}",
}
MARKED = """\
Traceback (most recent call last):
  File "/home/li/seg/train.py", line 212, in <module>
    main(cfg)
  File "/opt/conda/envs/seg/lib/python3.10/site-packages/torch/nn/modules/module.py", line 1518, in _call_impl
    return forward_call(*args, **kwargs)
  File "/home/li/seg/nets/unet.py", line 61, in forward
    x = torch.cat([up, skip], dim=1)
RuntimeError: Sizes of tensors must match except in dimension 1. Expected size 28 but got size 29
"""


def _marked(form: str, text: str) -> str:
    return "".join(form.format(line=line, n=n) + "\n" for n, line in enumerate(text.splitlines()))


def _wrapped(text: str, width: int) -> str:
    return "\n".join(line[at : at + width] for line in text.splitlines() for at in range(0, max(len(line), 1), width))


def test_a_decorated_traceback_has_its_frames_and_message(each):
    texts = {name: _marked(form, MARKED) for name, form in DECORATIONS.items()}
    texts["headless comment"] = _marked("# {line}", MARKED.split("\n", 5)[-1])
    texts["JSON log"] = "\n".join(json.dumps({"log": f"{line}\n"}) for line in MARKED.splitlines())
    texts["web page"] = "<pre>" + html.escape(MARKED) + "</pre>"
    texts["wrapped"] = _wrapped(MARKED, 80)
    texts["wrapped and quoted"] = _marked("> {line}", _wrapped(MARKED, 76))

    def check(name, text):
        raised = read_text(text).exceptions[-1]
        assert (raised.type, raised.frames[-1].line, raised.frames[-1].function) == ("RuntimeError", 61, "forward")
        assert raised.message.startswith("Sizes of tensors must match")
        assert "headless" in name or len(raised.frames) == 3

    each(texts.items(), check)


@in_one_test("mark", ["# ", "#", "// ", "%", "; ", "REM "])
def test_comment_signs_on_all_lines_are_removed(mark):
    assert read_text(f"{mark}Epoch 2: loss 0.4\n{mark}Killed\n").ending.signal == "SIGKILL"


def test_a_message_goes_on_behind_an_empty_line_where_its_line_ends_with_error() -> None:
    first = "Weights only load failed. Please report this: WeightsUnpickler error: "
    text = TRACE + f"_pickle.UnpicklingError: {first}\n\nUnsupported operand 118\n\nepoch 1\n"
    (raised,) = read_text(text).exceptions
    assert raised.message.split("\n") == [first.rstrip(), "", "Unsupported operand 118"]


@in_one_test("times", [2, 3, 8])
def test_the_last_line_that_several_ranks_wrote_at_once_is_one(times) -> None:
    line = "builtins.OSError" * times + ": " * times + "no shard at /data/a: b" * times
    (raised,) = read_text(f"{TRACE}{line}\n").exceptions
    assert (raised.type, raised.message) == ("OSError", "no shard at /data/a: b")


@in_one_test("head", ["Cell 5 in Agent.act(self, x)", "单元格 5 in Agent.act(self, x)", "Cell 5 line 2"])
def test_a_cell_of_vs_code_is_a_frame(head) -> None:
    title = "ValueError                                Traceback (most recent call last)\n"
    text = f"{title}f:\\play\\第2课.ipynb {head}\n      1 import torch\n----> 2 self.net(x)\n\nValueError: bad input\n"
    (raised,) = read_text(text).exceptions
    assert (raised.frames[-1].file, raised.frames[-1].line) == ("f:\\play\\第2课.ipynb", 2)
    assert raised.frames[-1].source == "self.net(x)"
