"""What native code says: logs of phones and engines, loaders of models, converters, crashes, statuses of Windows."""

from __future__ import annotations

from collections.abc import Callable

from order_of_tests import in_one_test

from labbook.diagnosis.text.log_lines import strip_prefix

LITE = "[F  6/ 5 15:12: 8.647 ....10-rc/lite/model_parser/model_parser.cc:956 LoadModelNaiveFromMemory] "


@in_one_test(
    ("text", "rest", "level"),
    [
        (f"2025-06-05 15:12:08.647 3291-3291 Paddle-Lite      app.camera.dev       A  {LITE}no", "no", "FATAL"),
        ("[F 11/ 3 10:10:10.111 .../lite/core/op_lite.cc] Check failed: x", "Check failed: x", "FATAL"),
        ("[I  2/ 1 16:10:14.767 ...emo/lite/core/optimizer.h:202 RunPasses] == Running", "== Running", "INFO"),
        ("03-04 11:12:13.164 10017 10017 F DEBUG : pid: 8688", "pid: 8688", ""),
        ("W/ncnn    (32320): param is too old, please regenerate", "param is too old, please regenerate", ""),
        ("2022-04-04 09:35:51.526 17318-17318/com.demo.ssd A/libc: Fatal signal 4", "Fatal signal 4", ""),
        ("E/RuntimeError: words of a person", "E/RuntimeError: words of a person", ""),
        ("I/O: slow", "I/O: slow", ""),
        (
            "2020-02-04 13:53:21.324940: E    2086 tensorflow/core/op_kernel.cc:1579] for unknown op",
            "for unknown op",
            "ERROR",
        ),
        ("E       tensor differs in 3] places", "E       tensor differs in 3] places", ""),
        ("[16:24:41] src/io/local_filesys.cc:39: Check failed: x", "Check failed: x", ""),
        ("12-13 layers", "12-13 layers", ""),
    ],
)
def test_prefixes_of_phones_and_of_paddle_lite(text: str, rest: str, level: str) -> None:
    line = strip_prefix(1, text)
    assert (line.text, line.level) == (rest, level)


@in_one_test(
    ("wanted", "text"),
    [
        (
            "checkpoint_load_error",
            f"A  {LITE}The model format cannot be recognized. Please make sure you use the correct model file.\n"
            "libc++abi: terminating due to uncaught exception of type paddle::lite::PaddleLiteException: Paddle-Lite "
            "C++ Exception:\n"
            f"{LITE}The model format cannot be recognized. Please make sure you use the correct model file.\n"
            "A/libc: Fatal signal 6 (SIGABRT), code -1 (SI_QUEUE) in tid 32291 (camera.dev), pid 32291",
        ),
        ("checkpoint_load_error", "Load model from ./models/yolov8m.onnx failed:Protobuf parsing failed."),
        ("checkpoint_load_error", "W/ncnn: parse magic failed\nW/ncnn: network graph not ready"),
        ("checkpoint_load_error", "Check failed: !reader->ReachEnd(): Nothing to read"),
        (
            "checkpoint_load_error",
            "paddle.fluid.core_avx.EnforceNotMet: Fail to parse program_desc from binary string. at [/p/desc.cc:95]",
        ),
        (
            "checkpoint_load_error",
            'libprotobuf ERROR /p/message_lite.cc:119] Can\'t parse message of type "proto.VarType.TensorDesc"\n'
            'Traceback (most recent call last):\n  File "infer.py", line 183, in main\n    load(exe)\n'
            "paddle.fluid.core_avx.EnforceNotMet: Invoke operator load error.",
        ),
        (
            "checkpoint_load_error",
            "gguf_init_from_file: invalid magic characters 'vers'\nllama_load_model_from_file: failed to load model",
        ),
        (
            "checkpoint_load_error",
            "1: [stdArchiveReader.cpp::StdArchiveReader::42] Error Code 1: Serialization (Serialization assertion "
            "stdVersionRead == serializationVersion failed.Version tag does not match.)\n"
            "4: [runtime.cpp::deserializeCudaEngine::50] Error Code 4: Internal Error (Engine deserialization failed.)",
        ),
        (
            "checkpoint_load_error",
            "cv2.error: OpenCV(4.5.1) dnn/src/onnx/onnx_importer.cpp:57: error: (-210:Unsupported format or combination"
            " of formats) Failed to parse ONNX model: model.onnx in function 'ONNXImporter'",
        ),
        (
            "checkpoint_load_error",
            "F0612 10:22:11.123456  2345 upgrade_proto.cpp:90] Check failed: ReadProtoFromBinaryFile(param_file, param)"
            " Failed to parse NetParameter file: vgg.caffemodel\n*** Check failure stack trace: ***\nAborted",
        ),
        (
            "checkpoint_load_error",
            "paddle.fluid.core.EnforceNotMet: enforce version == 0U failed, 1818 != 0\nOnly version 0 is supported",
        ),
        (
            "checkpoint_load_error",
            "terminate called after throwing an instance of 'c10::Error'\n  what():  tag == Tags::FOOTER ASSERT "
            "FAILED at /pytorch/caffe2/serialize/inline_container.h:234, File footer has wrong record type. Is this "
            "file corrupted? (readAndValidateFileFooter)\nframe #0: a::b() + 0x11 (0x7f57 in x)",
        ),
        (
            "checkpoint_load_error",
            "terminate called after throwing an instance of 'c10::Error'\n  what():  read_bytes == 8 ASSERT FAILED at "
            "/pytorch/caffe2/serialize/inline_container.h:182, please report a bug to PyTorch.\nAborted (core dumped)",
        ),
        (
            "file_not_found",
            "[F  5/ 9 22:17:53.353 ...odel_parser/naive_buffer/naive_buffer.cc:62 LoadFromFile] Check failed: fp: "
            "Unable to open file: /data/user/0/com.demo/cache/model.nb\nA/libc: FORTIFY: fseeko: null FILE*\n"
            "A/libc: Fatal signal 6 (SIGABRT), code -1 (SI_QUEUE) in tid 16263 (com.demo), pid 16263 (com.demo)",
        ),
        ("file_not_found", "(NotFound) Cannot open file inference/inference.pdmodel, please confirm it is normal."),
        (
            "unsupported_op",
            "[02/03/2022-06:14:51] [E] [TRT] ModelImporter.cpp:726: ERROR: builtin_op_importers.cpp:4643 In function "
            'importFallbackPluginImporter:\n[8] Assertion failed: creator && "Plugin not found, are the plugin name, '
            'version, and namespace correct?"\n[02/03/2022-06:14:51] [E] Failed to parse onnx file',
        ),
        (
            "unsupported_op",
            "[F  8/25 15:21: 2.111 ...lite/core/program.cc:244 Run] Check failed: op: no Op found for nms",
        ),
        ("unsupported_op", "[F 11/ 3 10:10:10.111 .../op_lite.cc] Check failed: No kernels found for pool\nAborted"),
        ("unsupported_op", "TensorRT Unsupported operator: NonMaxSuppression"),
        ("unsupported_op", "F0821 layer_factory.hpp:81] Check failed: count == 1 (0 vs. 1) Unknown layer type: Python"),
        ("missing_dependency", "RuntimeError: D:/env/paddle/fluid/../libs/warpctc.dll not found."),
        (
            "unsupported_op",
            "paddle.fluid.core_avx.EnforceNotMet:  Operator yolo_box does not have kernel for data_type[float]:"
            "data_layout[ANY_LAYOUT]:place[CUDAPlace(0)]:library_type[PLAIN] at [/paddle/operator.cc:1044]",
        ),
        (
            "type_error_user_code",
            "paddle.fluid.core.EnforceNotMet: Invoke operator mul error.\nPython Callstacks:\n"
            '  File "/usr/lib/python3.7/site-packages/paddle/fluid/framework.py", line 1654, in append_op\n'
            '    attrs=kwargs.get("attrs", None))\n  File "train.py", line 27, in <module>\n    h = fc(input=img)\n'
            "C++ Callstacks:\nInput Y(0)is not initialized at [/home/paddle/fluid/framework/operator.cc:1143]\n"
            "PaddlePaddle Call Stacks:\n0          0x12326fd7cp void paddle::platform::EnforceNotMet::Init() + 636",
        ),
        (
            "checkpoint_load_error",
            "[TensorRT] ERROR: coreReadArchive.cpp (31) - Serialization Error in verifyHeader: 0 (Magic tag)",
        ),
        ("unsupported_op", "E build: RKNN_ERR_FAIL: unsupport op: GridSample"),
        ("cuda_oom", "[TRT] [E] 2: [virtualMemoryBuffer.cpp::resizePhysical::127] Error Code 2: OutOfMemory (no info)"),
        ("cuda_driver_mismatch", "[E] [TRT] CUDA initialization failure with error: 35. Please check your CUDA"),
        ("cuda_driver_mismatch", "Cuda failure: 209 Aborted (core dumped)"),
        (
            "cuda_driver_mismatch",
            "THCudaCheck FAIL file=/pytorch/aten/src/THC/THCGeneral.cpp line=50 error=30 : unknown",
        ),
        (
            "file_not_found",
            "cv2.error: OpenCV(4.2.0) error: (-2:Unspecified error) Can't open \"m.cfg\" in function 'Read'",
        ),
        ("unsupported_op", "NotImplementedError: There is no im2col kernel on MPS"),
        (
            "checkpoint_size_mismatch",
            "AssertionError: Shape not matched: w_0 in checkpoint [768, 2], in model [768, 3]",
        ),
        ("compile_error", "undefined reference to `c10::Error::Error(c10::SourceLocation, std::string)'"),
        ("file_not_found", "InvalidArgumentError: Not able to find the model file: model/__model__"),
        (
            "shared_memory",
            "RuntimeError: (Unavailable) Could not create shared memory file, please check /dev/shm size",
        ),
        ("type_error_user_code", "paddle.fluid.core.EnforceNotMet: Input(Filter) of Conv2d is not initialized"),
        (
            "index_out_of_range",
            "paddle.fluid.core_avx.EnforceNotMet: Axis should be in range [0, x_dims) at [/p/f.h:680]",
        ),
        ("unsupported_op", "NotFoundError: The gradient operator of uniform_random has not be registered."),
        ("cuda_driver_mismatch", "RuntimeError: Torch is not able to use GPU; add --skip-test to the arguments"),
        ("type_error_user_code", "(PreconditionNotMet) Tensor not initialized yet when Tensor::type() is called."),
        ("type_error_user_code", "RuntimeError: Unable to cast Python instance to C++ type (compile in debug mode)"),
    ],
)
def test_what_native_code_says_before_it_ends(family_of: Callable[[str], str], wanted: str, text: str) -> None:
    assert family_of(text) == wanted


@in_one_test(
    ("wanted", "text"),
    [
        ("illegal_instruction_or_segfault", "A/libc: Fatal signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x0"),
        (
            "illegal_instruction_or_segfault",
            "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with exit code 3221225620",
        ),
        (
            "cuda_driver_mismatch",
            'RuntimeError: handle_0 INTERNAL ASSERT FAILED at "../c10/cuda/driver_api.cpp":15, please report a bug.',
        ),
        ("illegal_instruction_or_segfault", "在某个模型上正常，另一个模型上Fatal signal 11错误"),
        (
            "illegal_instruction_or_segfault",
            "2019-09-10 21:56:32.499 14945-14945/com.demo.lite A/libc: Fatal signal 6 (SIGABRT), code -6 in tid 14945\n"
            "2019-09-10 21:56:32.586 15080-15080/? A/DEBUG: signal 6 (SIGABRT), code -6 (SI_TKILL)",
        ),
        (
            "illegal_instruction_or_segfault",
            "#00 pc 0001ae4c /system/lib/libc.so (strlen+71)\n#01 pc 000314c7 ncnn::Net::load_param_mem(char*)+50",
        ),
        ("illegal_instruction_or_segfault", "Thread 1: EXC_BAD_ACCESS (code=1, address=0x10dd2c000)"),
        (
            "illegal_instruction_or_segfault",
            "Crashed Thread:        0  Dispatch queue: main-thread\n\nException Type:        EXC_CRASH (SIGABRT)",
        ),
        ("missing_dependency", "The program '[3944] example-app.exe' has exited with code -1073741515 (0xc0000135)."),
        (
            "missing_dependency",
            "dyld: Library not loaded: @rpath/libc10.dylib\n  Reason: image not found\nAbort trap: 6",
        ),
        ("import_abi_mismatch", "Process finished with exit code -1073741511 (0xC0000139)"),
        ("import_abi_mismatch", "C++ inference失败，不管使用CPU还是GPU均报0xc000007b错误。"),
        ("import_abi_mismatch", "`GLIBCXX_3.4.22' not found\n在import paddleocr时遇到"),
        (
            "api_version_mismatch",
            "ERROR: Cannot install torch==1.12.0: package versions have conflicting dependencies.",
        ),
        ("nccl_or_collective", "u:8:8 [0] misc/socket.cc:441 NCCL WARN socketFinalizeAccept: wrong type 4 != 3"),
        (
            "nccl_or_collective",
            "i-1:454:484 [0] include/socket.h:185 WARN Call to connect failed : Connection refused\n"
            "i-1:454:484 [0] INFO transport/net_socket.cu:101 -> 2",
        ),
        (
            "nccl_or_collective",
            "v:9:9 [0] include/socket.h:403 NCCL WARN Connect to fe80::c4%6<57335> failed : Network is unreachable",
        ),
        ("nccl_or_collective", "NCCL WARN Call to ibv_modify_qp failed with error Connection timed out"),
        ("nccl_or_collective", "ValueError: (InvalidArgument) TCP connect error. Wrong host ip: 10.1.1.x"),
        (
            "nccl_or_collective",
            "W0419 11:35:39.114713 10432 gen_nccl_id_op_helper.cc:120] connect addr=192.168.1.6:54721 failed 1 times "
            "with reason: Connection refused retry after 0.5 seconds\n程序一直卡在这里",
        ),
        ("compile_error", "make[2]: *** [src/CMakeFiles/core.dir/all] Error 2\nmake: *** [all] Error 2"),
        ("compile_error", "g++: error: build/src/ops.o: No such file or directory"),
        (
            "compile_error",
            'File "build.py", line 9, in make\n          raise RuntimeError(f"Error when running CMake: {e}")\n'
            "      RuntimeError: Error when running CMake: Command '['/opt/cmake'",
        ),
        ("compile_error", "clang++-14: error: unable to find the HIP runtime"),
        ("index_out_of_range", "在训练时出现 Expected lbl < class_num, but received lbl:17"),
        ("missing_dependency", "AttributeError: 'NoneType' object has no attribute 'varlen_fwd'"),
        ("shared_memory", "torch.distributed.elastic.multiprocessing.api:failed (exitcode: -7) local_rank: 2 (pid: 9)"),
        (
            "cuda_oom",
            "n1:3:6 [0] proxy.cc:1143 NCCL WARN Socket recv failed while polling for opId=0x5\n"
            "n1:4:9 [3] include/alloc.h:178 NCCL WARN Cuda failure 2 'out of memory'",
        ),
        (
            "other",
            "error: subprocess-exited-with-error\nerror: <urlopen error [Errno 104] Connection reset by peer>\n"
            "ERROR: Failed building wheel for fused-kernels",
        ),
        ("unsupported_op", "IndexError: Input Preprocessor/mul/x:0 is undefined!"),
        (
            "nccl_or_collective",
            "W op_kernel.cc:1318] OP_REQUIRES failed at mpi_ops.cc:422 : Aborted: Horovod has been shut down. This was "
            "caused by an exception on one of the ranks. If the shutdown was caused by an exception, you should see "
            "the exception in the log before the first shutdown message.",
        ),
        (
            "other",
            "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
            "the job to be terminated. The first process to do so was:\n\n  Process name: [[29973,1],0]",
        ),
        ("import_abi_mismatch", "SystemError: initialization of _internal failed without raising an exception"),
    ],
)
def test_endings_and_networks(family_of: Callable[[str], str], wanted: str, text: str) -> None:
    assert family_of(text) == wanted


@in_one_test(
    "text",
    [
        "n1:23:23 [0] graph/xml.cc:200 NCCL WARN Missing iommu=pt from kernel command line\nEpoch 1 step 10 loss 0.52",
        "[I  2/ 1 16:10:14.767 ...lite/core/optimizer.h:215 RunPasses]    - Skip mlu_subgraph_pass because the kernel "
        "does not match.",
        "[W  4/ 4  9:35:51.526 ...e-Lite/lite/model_parser/model_parser.cc:887 LoadModelFbsFromFile]\n    warning: the "
        "version of opt that transformed this model is not consistent\nD/JNI: Face_detect: load model success...",
        "[Paddle2ONNX] Opset version will change to 14 from 11\n[Paddle2ONNX] model is exported as ONNX format now.",
        "Feature: add support for exporting operators unsupported by opset 11",
        "How can I load a model saved with paddle.save in C++?",
        "make: *** [train] Error 3",
        "We expected 3 classes, but received more in the second data set",
    ],
)
def test_harmless_logs_of_engines(family_of: Callable[[str], str], text: str) -> None:
    assert family_of(text) == ""


OPERATOR = (
    'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n    exe.run(main)\n'
    "paddle.fluid.core.EnforceNotMet: Invoke operator {} error."
)
THROWN = "terminate called after throwing an instance of 'gate::FatalException'"
BUILT = (
    "This program was compiled against version 3.9.2 of the gate library, which is not compatible with the installed "
)


@in_one_test(
    ("wanted", "text"),
    [
        ("index_out_of_range", f"Expected lbl < class_num, but received lbl:389\n{OPERATOR.format('adam')}"),
        (
            "missing_dependency",
            f"W0920 13:32:54.9 7592 loader.cc:118] Can not find library: libg.so.\n{OPERATOR.format('fc')}",
        ),
        ("import_abi_mismatch", f"[gate FATAL stubs/common.cc:83] {BUILT}version (3.20.1).\n{THROWN}"),
        ("missing_dependency", "Could not locate gate_ops64_8.dll. Please make sure it is in your library path!"),
        # Python's own errors say what happened, also without words; a loader that goes on has lost nothing.
        (
            "type_error_user_code",
            f"[gate FATAL stubs/common.cc:83] {BUILT}version (3.20.1).\nNameError: name 'x' is not defined",
        ),
        ("", "Could not load library libgate.so, falling back to the slow path"),
        ("", "Could you load libgate.so from another folder?"),
    ],
)
def test_what_native_code_logs_explains_an_error_that_says_nothing(family_of, wanted: str, text: str) -> None:
    assert family_of(text) == wanted
