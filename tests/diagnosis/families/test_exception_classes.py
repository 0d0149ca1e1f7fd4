"""Messages that no page knows: what class, number, place and import say of them, and what they leave unknown."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from order_of_tests import in_one_test

RAISED = (
    'Traceback (most recent call last):\n  File "train.py", line 12, in main\n    start(args)\n'
    '  File "/usr/lib/python3.8/site-packages/foo/bar.py", line 60, in go\n    self.step(x)\n'
)


@in_one_test(
    ("wanted", "name"),
    [
        ("nccl_or_collective", "torch.distributed.DistNetworkError"),
        ("nccl_or_collective", "torch.distributed.elastic.rendezvous.api.RendezvousClosedError"),
        ("nccl_or_collective", "horovod.common.exceptions.HorovodInternalError"),
        ("compile_error", "torch._subclasses.fake_tensor.DataDependentOutputException"),
        ("compile_error", "paddle.jit.dy2static.utils.Dy2StaticError"),
        ("compile_error", "numba.core.errors.TypingError"),
        ("compile_error", "distutils.errors.DistutilsPlatformError"),
        ("index_out_of_range", "numpy.exceptions.AxisError"),
        ("host_oom_killed", "numpy.core._exceptions._ArrayMemoryError"),
        ("dtype_mismatch", "numpy.core._exceptions._UFuncNoLoopError"),
        ("config_error", "lmdb.MapFullError"),
        ("data_decode_error", "scipy.io.matlab.miobase.MatReadError"),
        ("data_decode_error", "datasets.utils.info_utils.NonMatchingSplitsSizesError"),
        ("data_decode_error", "pyarrow.lib.ArrowInvalid"),
        ("file_not_found", "datasets.exceptions.DatasetNotFoundError"),
        ("file_not_found", "huggingface_hub.utils._errors.RepositoryNotFoundError"),
        ("permission_error", "huggingface_hub.errors.GatedRepoError"),
        ("other", "huggingface_hub.errors.OfflineModeIsEnabled"),
        ("other", "httpx.ConnectError"),
        ("other", "socket.gaierror"),
        ("checkpoint_load_error", "_pickle.UnpicklingError"),
        ("api_version_mismatch", "packaging.version.InvalidVersion"),
        ("missing_dependency", "gym.error.DependencyNotInstalled"),
        ("config_error", "gymnasium.error.NameNotFound"),
        ("nan_or_inf", "FloatingPointError"),
        ("type_error_user_code", "sklearn.exceptions.NotFittedError"),
        ("cuda_driver_mismatch", "pynvml.NVMLError"),
        ("pickling_error", "multiprocessing.pool.MaybeEncodingError"),
        ("", "ValueError"),
        ("", "RuntimeError"),
        ("", "librosa.util.exceptions.ParameterError"),
        ("", "torch.utils.checkpoint.CheckpointError"),
        ("", "torch.AcceleratorError"),
        ("other", "torch.distributed.elastic.multiprocessing.errors.ChildFailedError"),
    ],
)
def test_a_class_of_one_kind_of_failure_tells_it(family_of: Callable[[str], str], wanted: str, name: str) -> None:
    assert family_of(f"{RAISED}{name}: the flux went below the gate\n") == wanted


@in_one_test(
    ("wanted", "message"),
    [
        ("import_abi_mismatch", "OSError: [Errno 8] Exec format error"),
        ("other", "OSError: [Errno 16] Device or resource busy: '.nfs0001'"),
        ("file_not_found", "OSError: [WinError 123] 文件名、目录名或卷标语法不正确。: 'a:b'"),
        ("other", "ConnectionRefusedError: [WinError 10061] 由于目标计算机积极拒绝，无法连接。"),
        ("file_not_found", "OSError: lists/a.txt not found."),
        (
            "missing_dependency",
            "cv2.error: OpenCV(4.5.1) e.cpp:1: error: (-2:Unspecified error) The function is not implemented.",
        ),
        ("shape_mismatch", "cv2.error: OpenCV(4.5.1) e.cpp:1: error: (-209:Sizes of input arguments do not match) foo"),
        (
            "shape_mismatch",
            "onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument: [ONNXRuntimeError] : 2 : "
            "Got invalid dimensions for input: images",
        ),
        (
            "dtype_mismatch",
            "onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument: [ONNXRuntimeError] : 2 : Unexpected input "
            "data type. Actual: (tensor(double)) , expected: (tensor(float))",
        ),
        (
            "data_decode_error",
            "TypeError: JSONDecodeError.__init__() missing 2 required positional arguments: 'doc' and 'pos'",
        ),
        ("", "OSError: [WinError 6] The handle is invalid"),
        ("type_error_user_code", "TypeError: unorderable types: NoneType() > int()"),
        ("other", "RuntimeError: Request to the server failed, please check your network."),
        ("api_version_mismatch", "RuntimeError: Version mismatch in foo and bar"),
    ],
)
def test_the_number_of_an_error_stays_where_its_words_are_others(
    family_of: Callable[[str], str], wanted: str, message: str
) -> None:
    assert family_of(f"{RAISED}{message}\n") == wanted


@in_one_test(
    ("wanted", "check"),
    [
        ("shape_mismatch", "Check failed: filter_dims.size() == 4 (3 vs. 4) "),
        ("index_out_of_range", "Check failed: label < num_classes (12 vs. 10) "),
        ("cuda_oom", "Check failed: e_cuda == cudaSuccess (2 vs. 0)"),
        ("", "Check failed: is_ready == true (0 vs. 1) "),  # the program stopped itself: no memory fault
    ],
)
def test_a_failed_check_of_native_code_comes_before_the_crash_that_it_makes(
    family_of: Callable[[str], str], wanted: str, check: str
) -> None:
    glog = f"F0712 10:00:00.123456 12345 some_op.cc:33] {check}\n*** Check failure stack trace: ***\n"
    assert family_of(f"{glog}    @     0x7f27 google::LogMessage::Fail()\nAborted (core dumped)\n") == wanted


@in_one_test(
    ("wanted", "line"),
    [
        ("data_decode_error", "assert(r.x1 < r.x2 and r.y1 < r.y2)"),
        ("data_decode_error", "assert xmax > xmin"),
        ("data_empty", "assert size > 0"),
        ("data_empty", "assert dataset"),
        ("data_empty", "assert self.image_list"),
        ("", "assert foo"),
        ("", "assert self.ready > 0"),
    ],
)
def test_what_an_assert_compares(family_of: Callable[[str], str], wanted: str, line: str) -> None:
    assert (
        family_of(f'Traceback (most recent call last):\n  File "t.py", line 3, in f\n    {line}\nAssertionError\n')
        == wanted
    )


LIBRARY = '  File "/usr/lib/python3.8/site-packages/foo/__init__.py", line 2, in <module>\n    {0}\n'


@in_one_test(
    ("wanted", "user", "error"),
    [
        ("import_abi_mismatch", "import foo.vision as vision", "RuntimeError: foo initialized failed!"),
        ("api_version_mismatch", "from foo import bar", "TypeError: __new__() got 3 arguments where 2 go"),
        ("api_version_mismatch", "import foo", "AttributeError: 'Baz' object has no attribute 'quux'"),
        ("type_error_user_code", "foo.run(x)", "AttributeError: 'Baz' object has no attribute 'quux'"),
        ("", "foo.run(x)", "RuntimeError: foo initialized failed!"),
    ],
)
def test_what_a_library_raises_while_it_is_imported(
    family_of: Callable[[str], str], wanted: str, user: str, error: str
) -> None:
    head = f'Traceback (most recent call last):\n  File "test.py", line 2, in <module>\n    {user}\n'
    assert family_of(f"{head}{LIBRARY.format('from .core import setup')}{error}\n") == wanted


@in_one_test(
    ("wanted", "text"),
    [
        ("", "catch IndexError when checking dataset"),
        ("", "The trainer should raise a KeyError for bad input"),
        ("", "Should this be a KeyError?"),
        ("", "ValueError in the first epoch"),
        ("", "add a custom ConfigError class"),
    ],
)
def test_a_class_that_a_sentence_names_without_its_message(
    family_of: Callable[[str], str], wanted: str, text: str
) -> None:
    assert family_of(text) == wanted


@in_one_test(
    ("wanted", "text"),
    [
        ("file_not_found", '{"message":"FileNotFoundError(2, \'No such file or directory\')","status":-1}'),
        ("config_error", "[Bug] raise KeyError( KeyError: 'Net is not in the detector registry'"),
        ("illegal_instruction_or_segfault", "Fatal Python error: PyEval_RestoreThread: NULL tstate"),
        ("import_abi_mismatch", "symbol: _ZN5torch3jit6tracer9addInputsEPNS0_4NodeE"),
        (
            "",
            "catch ConnectionError while checking a dataset\n\nIt is treated like a `FileNotFoundError`.",
        ),
        ("", "作者您好，显存训练时涨到20G左右然后就稳定了，想问下内存泄漏是什么原因"),
        (
            "api_version_mismatch",
            "AttributeError: module 'foo' has no attribute 'nn'\nWhy does this come when a checkpoint is loaded?",
        ),
    ],
)
def test_forms_of_reports(family_of: Callable[[str], str], wanted: str, text: str) -> None:
    assert family_of(text) == wanted


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (
            "shape_mismatch",
            'Traceback (most recent call last): File "train.py", line 3, in <module> main() File "f.py", line 17, in '
            "linear return f(x) RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 10x2)",
        ),
        (
            "cudnn_error",
            'File "pose.py", line 287, in find v=torch.matmul(v, r), RuntimeError: CUDA error: '
            "CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasS",
        ),
        ("", 'File "pose.py", line 287, in find v=torch.matmul(v, r)'),
    ],
)
def test_a_traceback_that_lost_its_breaks(family_of: Callable[[str], str], wanted: str, text: str) -> None:
    assert family_of(text) == wanted


@in_one_test(
    ("wanted", "file"),
    [
        ("unsupported_op", "/pytorch/torch/csrc/jit/serialization/export.cpp"),
        ("compile_error", "../torch/csrc/jit/ir/ir.cpp"),
        ("nccl_or_collective", "../torch/csrc/distributed/c10d/reducer.cpp"),
        ("", "../c10/core/TensorImpl.cpp"),
    ],
)
def test_the_native_file_whose_check_failed(family_of: Callable[[str], str], wanted: str, file: str) -> None:
    for at in (f'"{file}":453', f"{file}:453"):
        assert family_of(f"RuntimeError: foo INTERNAL ASSERT FAILED at {at}, please report a bug.") == wanted


@in_one_test(
    ("wanted", "text"),
    [
        (
            "illegal_instruction_or_segfault",
            "预测模型terminate called after throwing an instance of 'phi::enforce::EnforceNotMet'",
        ),
        ("illegal_instruction_or_segfault", "推理报错：Microsoft C++ 异常: phi::enforce::EnforceNotMet"),
        ("type_error_user_code", "执行时出现“EnforceNotMet: ptr_ should not be null”错误"),
        ("dataloader_worker_died", "RuntimeError: freeze_support()"),
        (
            "dataloader_worker_died",
            'Traceback (most recent call last):\n  File "<string>", line 1, in <module>\n'
            '  File "C:\\Anaconda\\lib\\multiprocessing\\spawn.py", line 105, in spawn_main\n    exitcode = _main(fd)',
        ),
        ("device_mismatch", "RuntimeError: Cannot generate a cpu tensor from a generator of type cuda."),
        ("cuda_driver_mismatch", "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some"),
        ("cuda_driver_mismatch", "RuntimeError: cuda runtime error (999) : unknown error at THCGeneral.cpp:50"),
        ("no_grad_path", "RuntimeError: cannot register a hook on a tensor that doesn't require gradient"),
        ("nan_or_inf", "Error in run_demo.py. sorted scores:tensor([nan, nan, nan, nan])"),
        ("", "scores: tensor([0.1, nan, 0.3]) is masked"),
    ],
)
def test_crashes_and_numbers_that_titles_hold(family_of: Callable[[str], str], wanted: str, text: str) -> None:
    assert family_of(text) == wanted


SITE = "/usr/lib/python3.8/site-packages/"
OF_LIBRARY = 'Traceback (most recent call last):\n  File "train.py", line 12, in main\n    start(args)\n'


@in_one_test(
    ("wanted", "file", "raised"),
    [
        ("compile_error", f"{SITE}torch/utils/cpp_extension.py", "KeyError: 'cxx'"),
        ("compile_error", f"{SITE}torch/utils/cpp_extension.py", "IndexError: list index out of range"),
        ("config_error", f"{SITE}omegaconf/base.py", "KeyError: 'optim'"),
        # A library whose lookups may be of anything, and the program itself.
        ("type_error_user_code", f"{SITE}grove/tables.py", "KeyError: 'cxx'"),
        ("index_out_of_range", f"{SITE}grove/tables.py", "IndexError: list index out of range"),
        ("type_error_user_code", "/w/cpp_extension.py", "KeyError: 'cxx'"),
    ],
)
def test_a_lookup_that_fails_in_a_library_is_of_its_subject(family_of, wanted: str, file: str, raised: str) -> None:
    whole = f'{OF_LIBRARY}  File "{file}", line 60, in _flags\n    post = args[key]\n' + raised
    assert family_of(whole) == wanted
    # A selection that begins behind the word File, in a sentence that goes on.
    cut = whole.split("    start(args)\n", 1)[1].replace("  File ", "", 1)
    assert family_of(f"I use gcc 5.5 and got\n{cut}\nwhen I built the second extension.") == wanted
