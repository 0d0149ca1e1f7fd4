"""Forms in which people pass a failure on, and several wordings of each check."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from order_of_tests import in_one_test

SITE = "/usr/lib/python3.8/site-packages/"


def _cut(file: str, function: str, source: str) -> str:
    return (
        'Traceback (most recent call last):\n  File "train.py", line 12, in main\n    start(args)\n'
        f'  File "{file}", line 60, in {function}\n    {source}\n'
    )


@in_one_test(
    ("wanted", "text"),
    [
        ("type_error_user_code", "Keyerror: 'img_metas' when training my own data"),
        ("type_error_user_code", "I get keyerror 'labels' after the first epoch"),
        ("type_error_user_code", "训练的时候出现了key error, 例如 KeyError: 'cat_12'这样的问题"),
        ("type_error_user_code", "Key Error: 'bbox' on custom dataset"),
        ("data_empty", "it stops with ValueError ('no training images')"),
        ("permission_error", "PermissionError [Errno 13] '/data'"),
        ("missing_dependency", "I got a ModulesNotFoundError: No module named 'yacs' again"),
    ],
)
def test_classes_are_typed_from_memory(family_of: Callable[[str], str], wanted: str, text: str) -> None:
    assert family_of(text) == wanted


@in_one_test("form", ["`{}`", "```{}```", "```\n{}\n```", "**{}**", '"{}"', "Error: {}", "报错：{}"])
@pytest.mark.parametrize("message", ["No module named 'yacs'", "IndexError: Target 4 is out of bounds."])
def test_a_message_is_read_in_any_markup(family_of: Callable[[str], str], message: str, form: str) -> None:
    assert family_of(form.format(message)) == family_of(message)


@in_one_test(
    ("wanted", "message"),
    [
        ("config_error", "AssertionError: img_size specified in both model and data"),
        ("config_error", "ValueError: Unknown growing rule: `lossgide`"),
        ("config_error", "ValueError: leaf_share must be between 0 and 1, got 3"),
        ("config_error", "ValueError: place must be an integer with 1 <= place <= 4, not 5"),
        ("api_version_mismatch", "ValueError: load_all_slots unsupported in TF2"),
        ("missing_dependency", "./fit.sh: строка 2: conda: команда не найдена"),
        ("config_error", "ValueError: The 'folds' parameter should not be None."),
        ("config_error", "ValueError: You provided both `span` and `width`. Please use only `width`."),
        ("shape_mismatch", "ValueError: Wrong length for sample marks"),
        ("shape_mismatch", "ValueError: 'ticks' must be of length 4, not 5"),
        ("missing_dependency", "RuntimeError: Dendrograms require the extra; this plot requires scipy to be available"),
        ("config_error", "ValueError: Invalid `layout`: 'spiral'. Options are 'grid' and 'circle'."),
        ("config_error", "BoostError: Leaf refresh is not supported by current booster."),
        ("type_error_user_code", "ValueError: Please build the vocabulary first, its size is needed"),
        ("config_error", "ValueError: No sampler given"),
        ("other", "OSError: No such device (os error 19)"),
        ("file_not_found", "OSError: Bad link: No such file or directory (os error 2)"),
        (
            "dataloader_worker_died",
            _cut(SITE + "torch/_utils.py", "reraise", "raise self.exc_type(msg)"),
        ),
        ("data_decode_error", "RuntimeError: Failed to fetch clip 12 from a/b.mp4 after 9 tries"),
        (
            "config_error",
            _cut("run.py", "fit", "assert not shared.cmd_opts.lowmem") + "AssertionError: Not with lowmem",
        ),
        (
            "dataloader_worker_died",
            _cut(SITE + "torch/utils/data/_utils/signal_handling.py", "handler", "_error_if_any_worker_fails()"),
        ),
        (
            "shared_memory",
            _cut(SITE + "torch/utils/data/_utils/signal_handling.py", "handler", "_error_if_any_worker_fails()")
            + "RuntimeError: DataLoader worker (pid 21) is killed by signal: Bus error. It is possible that "
            "dataloader's workers are out of shared memory. Please try to raise your shared memory limit.",
        ),
        ("config_error", "AssertionError: seed is defined in both the file and the command line"),
        ("config_error", "ValueError: Both `lr` and `learning_rate` are given"),
        ("config_error", "AssertionError: batch size 3 cannot be divided by number of GPUs 2"),
        ("config_error", "ValueError: optimizer sgdd not in ['sgd', 'adam']"),
        ("config_error", "NotImplementedError: loss type focal3"),
        ("config_error", "ValueError: num_heads must divide embed_dim"),
        ("config_error", "RuntimeError: No optimizer was configured"),
        ("config_error", "AssertionError: assert 'type' in cfg"),
        ("data_decode_error", "AssertionError: Annotation must have bbox"),
        ("data_decode_error", "ValueError: not enough image data"),
        ("shape_mismatch", "AssertionError: q, k and v must have the same length"),
        ("shape_mismatch", "GraphError: the number of weights has to match the number of arcs, 40 and 44 were given"),
        ("shape_mismatch", "RuntimeError: Size mismatch"),
        ("data_decode_error", "ValueError: a.jpg: duplicate file name in archive"),
        ("data_empty", "ValueError: the batch we received is empty"),
        ("data_empty", "AssertionError: empty batch"),
        ("missing_dependency", "ValueError: Using `fp8` requires `engine_a` or `engine_b` to be installed."),
        ("data_empty", "ValueError: No ground-truth masks available in this batch"),
        ("data_decode_error", "AudioCutError: the clip of 3.1 s goes beyond the recording"),
        ("type_error_user_code", "ValueError: `fit` only supports `list` of `str` for argument `names`"),
        ("type_error_user_code", "EnforceNotMet: holder_ should not be null"),
        ("file_not_found", "Exception: can not find weights/best.pt"),
        ("shape_mismatch", "In transformed code: ValueError: Input x should be 3D tensor, but received shape (-1, 32)"),
    ],
)
def test_checks_of_single_repositories(family_of: Callable[[str], str], wanted: str, message: str) -> None:
    assert family_of(message) == wanted
    assert family_of(f"训练到一半报错，请问如何解决？\n\n{message}\n") == wanted


@pytest.mark.parametrize(
    ("wanted", "file", "function", "source"),
    [
        (
            "pickling_error",
            "C:\\Python38\\lib\\multiprocessing\\reduction.py",
            "dump",
            "ForkingPickler(file).dump(obj)",
        ),
        ("missing_dependency", "/usr/lib/python3.8/importlib/__init__.py", "import_module", "return _gcd_import(name)"),
        ("config_error", f"{SITE}yaml/scanner.py", "fetch_value", "raise ScannerError(None, None,"),
    ],
)
def test_the_file_that_raised_a_message_that_was_lost(
    family_of: Callable[[str], str], wanted: str, file: str, function: str, source: str
) -> None:
    assert family_of(_cut(file, function, source)) == wanted


@in_one_test(
    ("wanted", "message"),
    [
        ("config_error", "ValueError: `tilt` should be a float between 0 and 1 when mode='fixed'"),
        ("config_error", "MeshError: Unknown folding scheme: spiral"),
        ("config_error", "ValueError: Cannot fold panels when the mesh is frozen"),
        ("type_error_user_code", "ValueError: Expected a list of panels, got <class 'str'>"),
        ("type_error_user_code", "RuntimeError: The folder was not initialized. Call `prepare()` first."),
        ("type_error_user_code", "NotImplementedError: fold function not implemented for this mesh"),
        ("shape_mismatch", "ValueError: front has 3 ribs but back has 4 ribs"),
        ("", "RuntimeError: Folding failed for an unknown reason"),
        ("", "ValueError: The graph is not connected"),
    ],
)
def test_what_a_check_in_a_library_rejects(family_of: Callable[[str], str], wanted: str, message: str) -> None:
    raised = message.split(":")[0]
    assert family_of(_cut(f"{SITE}folding/mesh.py", "fold", f"raise {raised}(") + message + "\n") == wanted
    native = _cut(f"{SITE}folding/mesh.py", "fold", "return _C.fold(mesh)")
    assert raised != "RuntimeError" or family_of(f"{native}{message}\n") == ""


def test_a_compiler_asserts_its_own_state(family_of: Callable[[str], str]) -> None:
    raised = _cut(f"{SITE}torch/_functorch/aot_autograd.py", "lower", "raise AssertionError(said)")
    assert family_of(f"{raised}AssertionError: out_spec must not be None\n") == "compile_error"


@in_one_test(
    ("wanted", "message"),
    [
        (
            "shape_mismatch",
            "ValueError: `propagate` only supports `torch.LongTensor` of shape `[2, n]` for argument `e`.",
        ),
        ("shape_mismatch", "AssertionError: The last dimension of x must be 64"),
        ("shape_mismatch", "Exception: expected input with 3 channels"),
        ("shape_mismatch", "ValueError: samples of prediction and target differ: 10 vs 12"),
        ("dtype_mismatch", "RuntimeError: Input and weight must have the same dtype"),
        ("checkpoint_load_error", "RuntimeError: checkpoint does not contain optimizer state"),
        ("file_not_found", "IOError: can't open file 'train.py'"),
        ("config_error", "SyntaxError: 'data.yaml' 'train:' and 'val:' keys missing"),
        ("other", "OSError: [Errno 5] Input/output error: '/mnt/share/run7'"),
    ],
)
def test_a_check_says_the_same_alone_raised_and_quoted(
    family_of: Callable[[str], str], wanted: str, message: str
) -> None:
    assert family_of(message) == wanted
    assert family_of(f'Traceback (most recent call last):\n  File "t.py", line 3, in f\n    g()\n{message}\n') == wanted
    assert family_of(f"Training fails\n\nAfter a few minutes I see `{message}`. Any idea?") == wanted


def test_code_that_cannot_become_static_is_told_before_the_type_that_shows_it(family_of: Callable[[str], str]) -> None:
    inner = "TypeError: (InvalidType) full(): argument (position 2) must be double, but got UndefinedVar"
    assert (
        family_of(f'TypeError: In transformed code:\n\n    File "a.py", line 3, in step\n\n    {inner}')
        == "compile_error"
    )


@in_one_test(
    ("family", "text"),
    [
        ("device_mismatch", 'DGLError: Cannot assign feature "h" on device cuda:0 to a graph on device cpu.'),
        ("dtype_mismatch", "TypeError: output tensor must have the same type as input tensor"),
        ("compile_error", "src/a.cc:579:15: error: 'class nvinfer1::IBuilder' has no member named 'setMaxBatchSize'"),
        ("compile_error", "make[2]: *** [CMakeFiles/a.dir/runtime.cc.o] Error 1"),
        (
            "index_out_of_range",
            '  File "t.py", line 1, in f\n    assert torch.all(seg_label < 5), seg_label\nAssertionError: [255]',
        ),
        ("host_oom_killed", "deepspeed 跑了一会返回错误码-9"),
        ("file_not_found", "Exception: There is no directory named ./data/train"),
        ("config_error", "RuntimeError: expected /out/config.yaml to NOT exist. Aborting to overwrite nothing"),
    ],
)
def test_shapes_of_messages(family_of: Callable[[str], str], family: str, text: str) -> None:
    assert family_of(text) == family


def test_a_quotation_that_is_cut_off_has_the_class_of_what_is_raised_again(family_of: Callable[[str], str]) -> None:
    text = """Traceback (most recent call last):
  File "train.py", line 36, in train
    for i, (inp, idx) in enumerate(train_loader):
  File "/e/site-packages/torch/_utils.py", line 369, in reraise
    raise self.exc_type(msg)
cv2.error: Caught error in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "/e/site-packages/torch/utils/data/_utils/fetch.py", line 44, in fetch
    data = [self.dataset[idx] for idx in possibly_batched_index]
"""
    assert family_of(text) == "data_decode_error"


RAISED = 'Traceback (most recent call last):\n  File "t.py", line 3, in f\n    g()\n'


@in_one_test(
    "text",
    [
        f"{RAISED}ValueError: foo bar baz qux\nmake: *** [Makefile:3: train] Error 1",
        f"{RAISED}ValueError: foo bar baz qux\nmake[1]: *** [Makefile:3: train] Error 1",
        "ValueError: sigma must be strictly positive, got 0",
        "Training works on cpu but crashes on gpu",
        "I didn't compile with CUDA, is this slow?",
    ],
)
def test_what_stands_around_a_failure_is_not_its_family(family_of: Callable[[str], str], text: str) -> None:
    assert family_of(text) == ""


@in_one_test(
    ("wanted", "source"),
    [
        ("shape_mismatch", "assert n == len(labels)"),
        ("shape_mismatch", "assert H % self.window == 0 and W % self.window == 0"),
        ("config_error", "assert args.batch_size % args.world_size == 0"),
        ("config_error", "assert t <= self.block_size"),
        ("data_empty", "assert batch_size * group_size < len(dataset)"),
        ("data_decode_error", "assert img is not None, path"),
        ("data_decode_error", "assert xmax > xmin and ymax > ymin"),
        ("checkpoint_key_mismatch", "assert set(state.keys()) == set(model.state_dict().keys())"),
        ("nccl_or_collective", "assert dist.is_initialized()"),
    ],
)
def test_an_assertion_without_a_message_is_what_its_line_compares(
    family_of: Callable[[str], str], wanted: str, source: str
) -> None:
    assert family_of(_cut("/home/li/net.py", "forward", source) + "AssertionError\n") == wanted


@in_one_test(
    ("wanted", "source", "message"),
    [
        ("config_error", "reader = cfg['TrainReader']['inputs_def']", "KeyError: 'inputs_def'"),
        ("config_error", 'params = param_group["params"]', "KeyError: 'params'"),
        ("type_error_user_code", "model = MODELS[cfg['name']]", "KeyError: 'resnet99'"),
        ("type_error_user_code", "score = confidence['car']", "KeyError: 'car'"),
        ("data_decode_error", "name, label = line.strip().split('\\t')", "ValueError: not enough values to unpack"),
        ("config_error", "k, v = s.split('=')", "ValueError: not enough values to unpack (expected 2, got 1)"),
        ("type_error_user_code", "b, c, h, w = x.shape", "ValueError: not enough values to unpack (expected 4, got 3)"),
    ],
)
def test_the_line_says_of_what_a_key_or_a_value_is_missing(
    family_of: Callable[[str], str], wanted: str, source: str, message: str
) -> None:
    assert family_of(_cut("/home/li/net.py", "build", source) + message + "\n") == wanted


@in_one_test(
    ("wanted", "source"),
    [
        ("config_error", "fold = _FOLD_TYPES[self.kind](**kwargs)"),
        ("config_error", "return cls._member_map_[name]"),
        ("type_error_user_code", "return COLUMNS[column_name]"),
    ],
)
def test_a_library_looks_up_what_a_user_chose(family_of: Callable[[str], str], wanted: str, source: str) -> None:
    assert family_of(_cut(f"{SITE}folding/mesh.py", "pick", source) + "KeyError: 'spiral'\n") == wanted


@in_one_test(
    ("wanted", "text"),
    [
        ("compile_error", "ptxas error   : Entry function '_Z4attnPf' uses too much shared data (0x13000 bytes)"),
        ("compile_error", "nvlink error   : Undefined reference to '_Z3fooPf' in 'build/a.o'"),
        ("compile_error", "/usr/bin/ld: a.o: relocation R_X86_64_PC32 against symbol `x' can not be used when making "
         "a shared object; recompile with -fPIC"),
        ("import_abi_mismatch", "ImportError: /env/libc10.so: symbol cudaGet version libcudart.so.12 not defined in "
         "file libcudart.so.12 with link time reference"),
        ("nccl_or_collective", "RuntimeError: [ERROR] HCCL error in: torch_npu/csrc/ProcessGroupHCCL.cpp:64"),
        ("nccl_or_collective", "EI0006: Getting socket times out. Reason: Remote Rank did not send"),
        ("cuda_oom", "EL0004: Failed to allocate memory. Reason: aclrtMalloc failed, memory size 2147483648 bytes."),
        ("cuda_oom", "paddle.fluid.core_avx.EnforceNotMet: Invoke operator conv2d error.\nC++ Callstacks:\n"
         "Cannot allocate 1.13MB memory on GPU 0, available memory is only 0.18MB. at [/paddle/cuda_allocator.cc:69]"),
        ("shape_mismatch", "RuntimeError: call aclnnAdd failed, detail:EZ1001: The shape of self [4,5] and other [4,6] "
         "cannot broadcast."),
        ("shape_mismatch", "TypeError: dot requires contracting dimensions to have the same shape, got (8,) and (4,)."),
        ("file_not_found", "bash: ./run.sh: No such file or directory"),
        ("missing_dependency", "/bin/sh: 1: nvcc: not found"),
        ("no_grad_path", "RuntimeError: You are calling .backward() on a tensor that has requires_grad=False"),
        ("config_error", "RuntimeError: Files with extension '.pt' are already present in the directory ./out."),
        ("cuda_driver_mismatch", "OSError: Could not find a compatible extension for compute capability 87."),
        ("cuda_driver_mismatch", "RuntimeError: synStatus=26 [Generic failure] Device acquire failed."),
        ("cuda_oom", "RuntimeError: level_zero backend failed with error: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)"),
        ("cuda_oom", "RuntimeError: Bad StatusOr access: RESOURCE_EXHAUSTED: Attempting to allocate 12.00G."),
        ("unsupported_op", "RuntimeError: UNIMPLEMENTED: dynamic reshape of a bounded tensor"),
        ("cudnn_error", "RuntimeError: cudnnFindConvolutionForwardAlgorithm(handle, in_desc, in, filter)"),
        ("shape_mismatch", "ValueError: The data size must be equal to that of the data layer."),
        ("data_empty", "ValueError: (InvalidArgument) The tensors list must be at least 1, but received 0."),
        ("timeout", "RuntimeError: RPC ran for more than set timeout (60000 ms) and will now be marked with an error"),
        ("compile_error", "RuntimeError: An input is mutated, which is banned in the aot_autograd workflow."),
        ("compile_error", "torch._export.verifier.SpecViolationError: Operator mul is no allowed operator type"),
    ],
)  # fmt: skip
def test_messages_of_compilers_loaders_and_other_devices(
    family_of: Callable[[str], str], wanted: str, text: str
) -> None:
    assert family_of(text) == wanted
    assert family_of(f"// {text}\n// \n") == wanted


@in_one_test(
    ("wanted", "message"),
    [
        ("config_error", "ValueError: mixing weight: 1.4 can't be larger than 1.0"),
        ("config_error", "NotImplementedError: Ragged batches are not supported (list inside tuple)."),
        ("config_error", "ValueError: fuse_rows is not supported by Beam, because a batch holds whole groups of rows."),
        ("config_error", "ValueError: At least one stage is required"),
        ("config_error", "ValueError: 'fourier' is already present in the registry. Pass `force=True`."),
        ("config_error", "ValueError: name 'head' is already taken, choose another one"),
        ("type_error_user_code", "RuntimeError: Tried to close the writer twice"),
        ("type_error_user_code", "ValueError: forest must be Booster, Model or dict instance"),
        ("type_error_user_code", "ValueError: list.remove(x): x not in list"),
        ("type_error_user_code", "ValueError: Column 'weight' does not exist"),
        ("shape_mismatch", "ValueError: Input must be 2 or 3 dimensions"),
        ("data_decode_error", "ValueError: Error: the file a.bin wasn't a zip-file"),
        ("checkpoint_load_error", "ValueError: The path runs/a does not point to a valid checkpoint."),
        ("api_version_mismatch", "ValueError: this build seems to be too old to support it."),
        ("api_version_mismatch", "ValueError: 'swish' is already used by a Transformers model."),
        ("config_error", "ValueError: Freezing a `stem` is not supported: its rows are read from a checkpoint."),
        ("config_error", "ValueError: environment variable `JOB_RANK` not found."),
        ("shape_mismatch", "ValueError: The number of clips and paths must be the same"),
        ("checkpoint_key_mismatch", "RuntimeError: Keys 'trunk.head.weight, trunk.head.bias' are missing."),
        ("type_error_user_code", "OperationalError: no such table: runs"),
        ("missing_dependency", "ValueError: The pyarrow library is required to read it."),
        ("missing_dependency", "ValueError: FlashMix backend is required for this method."),
        ("config_error", "RuntimeError: NCCL backend is required for this method."),
    ],
)
def test_checks_of_libraries_in_other_words(family_of: Callable[[str], str], wanted: str, message: str) -> None:
    kind = message.split(":", 1)[0]
    assert family_of(_cut(SITE + "lab/core.py", "build", f"raise {kind}(") + message) == wanted


@in_one_test(
    ("wanted", "text"),
    [
        # A library that asks for another order of imports is no binary incompatibility.
        (
            "missing_dependency",
            'Traceback (most recent call last):\n  File "a.py", line 2, in <module>\n    import fastlib\n'
            f'  File "{SITE}fastlib/__init__.py", line 9, in <module>\n    raise ImportError("order")\n'
            "ImportError: Please import fastlib before torch",
        ),
        # An object that another version of a library wrote.
        (
            "api_version_mismatch",
            _cut(SITE + "store/reader.py", "read", "obj = pickle.loads(data)")
            + "TypeError: __init__() takes 1 positional argument but 2 were given",
        ),
        ("config_error", _cut("tool/options.py", "validate_args", "raise RuntimeError()") + "RuntimeError"),
        ("shape_mismatch", '"The size of tensor a (3) must match the size of tensor b (8) at dimension 1"'),
        ("config_error", "╭─ Error ─────────────╮\n│ Missing argument 'DATA'. │\n╰───────────╯"),
        ("config_error", "+- Parsing error ----+\n| Argument --m: invalid choice: 'x' (choose from 'y') |"),
        ("other", "subprocess.CalledProcessError: Command '['python', 'train.py'"),
    ],
)
def test_what_only_the_place_or_the_form_shows(family_of: Callable[[str], str], wanted: str, text: str) -> None:
    assert family_of(text) == wanted
