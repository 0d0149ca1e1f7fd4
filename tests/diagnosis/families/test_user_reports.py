"""What people say happened without quoting a message, and sentences that sound alike and say nothing of the kind."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from labbook.diagnosis.families.user_reports import family_of_report


@pytest.mark.parametrize(
    ("family", "text"),
    [
        ("nan_or_inf", "After two epochs the total loss turns to NaN and stays there."),
        ("nan_or_inf", "换成自己的数据以后，训练几百步 loss 就冒出 nan 了"),
        ("nan_or_inf", "I get nan loss as soon as I use the second head"),
        ("no_grad_path", "With checkpointing on, every gradient is 'None' and the adapters never change."),
        ("no_grad_path", "自定义层的梯度无法回传，求助"),
        ("host_oom_killed", "RAM keeps increasing during training\nAfter four epochs the system kills the process."),
        ("host_oom_killed", "内存一直上涨，占满之后程序就退出了"),
        ("host_oom_killed", "My training gets killed when I load the big dataset"),
        ("cuda_oom", "用多尺度训练时显存一直涨，最后爆了"),
        ("pickling_error", "cannot pickle local object when workers are used on Windows"),
        ("port_in_use", "第二次启动服务，端口 9292 被占用"),
        ("data_decode_error", "Error when loading data/run/clip_01.avi, have 0 trys, will try again"),
        ("unsupported_op", "kernel [engine] is unsupported. Reason: op type Conv3D is not found in this op store"),
        ("shape_mismatch", "加载以后报 shape error，[截图]"),
        ("index_out_of_range", "剪枝时数组越界"),
        ("nccl_or_collective", "单机多GPU启动训练，一直卡在 loading config 不动，要注意什么吗"),
        ("nccl_or_collective", "Training gets hung while using multiple GPU's, no error message"),
        ("file_not_found", "FileNotFoundError while training\n\nThe dataset is the usual one."),
        ("api_version_mismatch", "from paddlenlp.transformers import UIE这句报错，怎么办？"),
        ("cuda_oom", "单机单卡微调 显存一路涨到OOM"),
        ("data_decode_error", "图是脚本生成的，有的能读有的读不了"),
        ("unsupported_op", '请问"Half" 类型没有实现 "addmm_impl_cpu_" 操作，要怎么解决'),
        ("shape_mismatch", "换了这个模块会报通道数的错"),
        ("dataloader_worker_died", "num_workers 大于 0 时 dataloader 直接卡死"),
    ],
)
def test_a_sentence_says_what_happened(family_of: Callable[[str], str], family: str, text: str) -> None:
    assert family_of(text) == family


@pytest.mark.parametrize(
    "text",
    [
        "Is a mean of nan for an empty batch documented?",
        "We checked that the loss is not nan and that gradients are fine.",
        "训练了三天，loss 没有出现 nan，精度也正常",
        "A callback that stops when the gradient norm is not finite would be nice to have.",
        "Validation loss improved from inf to 0.6213, saving model",
        "best_loss: inf",
        "显存不够的话可以用梯度累积。",
        "显存不足时自动减小批大小",
        "The shape error message should name the layer.",
        "Tips to keep memory from growing until the job dies",
        "Which port is used by the master when none is set?",
        "How do I find out which operators are not supported by the exporter?",
        "The memory of the cache grows with the number of files.",
        "我想了解一下数据类型不一致时框架怎么提升",
        "怎么实现数组越界检查",
        "Memory usage stays at 40 % and nothing is killed.",
    ],
)
def test_what_sounds_alike_says_nothing(text: str) -> None:
    assert family_of_report(text.splitlines()) is None


def test_a_message_goes_before_what_is_said_around_it(family_of: Callable[[str], str]) -> None:
    text = "loss becomes nan in fp16\n\nRuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"
    assert family_of(text) == "cuda_oom"


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ("nccl_or_collective", "多gpu训练过程突然停滞，某个gpu内存占用减少"),
        ("nccl_or_collective", "跑多卡训练死机"),
        ("nccl_or_collective", "程序直接卡死了，一张卡可以训练，多张卡就卡在上面那个状态了"),
        ("nccl_or_collective", "During multi-card training, it will kill a process and cause it to freeze"),
        ("nccl_or_collective", "多机多卡预训练，从节点无法连接到主节点"),
        ("host_oom_killed", "训练时内存占用线性增长，BATCHSIZE无论大小都会发生，直到aistudio报错终止"),
        ("cuda_oom", "CUDA内存不足，GPU 0 已分配 7.5G"),
        ("cuda_oom", "I always run out of GPU memory on a 24GB card even with batch_size 1"),
        ("dataloader_worker_died", "The program freezes when num_workers > 0 in DataLoader"),
        ("dataloader_worker_died", "num_workers设置大于0时，程序卡死在读数据"),
        ("cuda_driver_mismatch", "torch.cuda.is_available() returns False after installing pytorch with CUDA 11.8"),
        ("cuda_driver_mismatch", "torch.cuda.is_available() 返回 False，显卡驱动是 470"),
        ("missing_dependency", "提示缺少 libGL.so.1"),
        ("missing_dependency", "'python' 不是内部或外部命令，也不是可运行的程序"),
        ("api_version_mismatch", "用onnx=1.6.0一直提示 onnx==1.5.0 is required"),
        ("data_empty", "没有找到训练图片，请检查数据集路径"),
        ("disk_full", "保存checkpoint时磁盘满了报错"),
        ("unsupported_op", "转tensorrt的时候提示不支持 NonZero 算子"),
        ("nan_or_inf", "训练到200步之后，loss突然就NaN了，请问是什么原因"),
        ("nan_or_inf", "With some spaces I get all action nan when stepping the env."),
        ("nan_or_inf", "model predictions become nan after the first update"),
        ("config_error", "usage: issue.py [-h] [--op]\nissue.py: error: Value not boolean: ['true']."),
    ],
)
def test_what_people_say_without_a_message(family_of: Callable[[str], str], wanted: str, text: str) -> None:
    assert family_of(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "num_workers 设置多少合适？机器是 32 核",
        "请问 paddle2onnx 支持 NonZero 算子吗",
        "I freeze the backbone layers in DDP and only train the head, is that right?",
        "torch.cuda.is_available() 返回 True，但是训练速度很慢",
        "device = 'cuda' if torch.cuda.is_available() else 'cpu'\n请问这段代码是什么意思",
        "Is CUDA available: False\nPyTorch version: 2.0.1\nHow do I use mps with this repo?",
        "磁盘空间需要多少才能放下整个数据集？",
        "训练早停了，第 20 个 epoch 就停了是正常的吗",
    ],
)
def test_questions_in_like_words(family_of: Callable[[str], str], text: str) -> None:
    assert family_of(text) == ""


@pytest.mark.parametrize(
    ("family", "text"),
    [
        ("", "step 100 | loss 2.345 | grad norm inf -> skipped | scale 32768\nstep 101 | loss 2.340 | grad norm 1.2\n"),
        ("nan_or_inf", "step 1 | loss nan | grad norm nan -> skipped\nstep 2 | loss nan | grad norm nan -> skipped\n"),
        ("nan_or_inf", "step 1 | loss 2.345 | grad norm nan | lr 0.1\nstep 2 | loss nan | grad norm nan | lr 0.1\n"),
    ],
)
def test_a_step_that_the_scaler_skips_is_no_failure(family_of: Callable[[str], str], family: str, text: str) -> None:
    assert family_of(text) == family


@pytest.mark.parametrize(
    ("family", "text"),
    [
        (
            "illegal_memory_access",
            "After two or three epochs my job always stops with an illegal memory access, any idea?",
        ),
        ("permission_error", "Saving the weights sometimes fails with a permission error on this machine only."),
        (
            "cuda_driver_mismatch",
            "The packed program runs on my card; on an older one it says no kernel image is available.",
        ),
        ("cuda_driver_mismatch", "换了新版本之后一直 cudaErrorNoKernelImageForDevice，cpu 也跑不了"),
        ("cuda_driver_mismatch", "服务器上一跑就报 cuda runtime error（209）"),
        ("cuda_oom", "First epochs are fine, then it says not enough video memory."),
        ("cuda_oom", "它说显卡0申请300M不够，只剩80M了"),
        ("shared_memory", "训练几个epoch后 DataLoader worker 报 bus error，提示共享内存不够"),
        ("ddp_unused_parameters", "两张卡就提示要设 find_unused_parameters=True，加了还是一样的错"),
        ("no_grad_path", "With checkpointing all the grads of lora_A and of lora_B are None and nothing is learned."),
        ("interrupted", "colab, training stops by itself with ^C and nobody pressed a key"),
        ("interrupted", "每次一关终端训练就停了"),
        ("compile_error", "自定义算子编译失败，环境是官方镜像"),
        ("data_decode_error", "train: Scanning labels... 4100 found, 0 missing, 0 empty, 1200 corrupted"),
        ("nan_or_inf", "拿它去训自己的数据，动不动就nan，学习率已经很小了"),
        ("illegal_memory_access", "编码器训得好好的，一到解码器就 illegal memory encounter"),
        ("host_oom_killed", "During training my RAM goes up and up until the whole thing goes down."),
        ("host_oom_killed", "机器内存被吃光，进程被kill"),
        ("cuda_oom", "把 batch 减到 1 还是OOM"),
        ("config_error", "起不来，后来发现是自己的config里少了 hidden_size"),
        ("missing_dependency", "微调的时候一直说缺pp-peft"),
        ("api_version_mismatch", "一跑就挂，后来把框架退到2.3.2就好了"),
        ("api_version_mismatch", "It broke after the update, downgrading torch to 1.13 fixed it."),
        (
            "dtype_mismatch",
            "ValueError: Must flatten tensors with uniform dtype but got torch.float16 and torch.float32",
        ),
        ("api_version_mismatch", "还是 'paddle.incubate.autograd' has no attribute 'prim_on'"),
        ("", "docs/faq.md\n- RuntimeError: Expected to have finished reduction in the prior iteration\n  set the flag"),
        ("", "train: Scanning labels... 4100 found, 0 missing, 0 empty, 0 corrupted"),
        ("", "Is it normal that a permission error is printed when the cache is missing?"),
        ("", "The new driver fixed the illegal memory access for us."),
        ("", "本文整理了 CUDA out of memory 的常见原因和解决办法"),
        ("", "It trains fine. INFO retries: 0, timeouts 0, bus errors: none seen so far"),
    ],
)
def test_failures_that_a_sentence_names(family_of: Callable[[str], str], family: str, text: str) -> None:
    assert family_of(text) == family


def test_what_somebody_guesses_is_not_put_before_the_message(family_of: Callable[[str], str]) -> None:
    message = "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED\n"
    assert family_of(message) == family_of(message + "maybe it slowly runs out of memory?\n") == "cudnn_error"


def test_a_title_ends_the_traceback_that_was_cut(family_of: Callable[[str], str]) -> None:
    """What reads the environment is a setting, whatever the class of its error."""
    title = "起训就 `ValueError: Not supported value: 0`\n"
    cut = (
        'Traceback (most recent call last):\n  File "train.py", line 12, in <module>\n    import sd_args\n'
        '  File "sd_args.py", line 3, in <module>\n    if str2bool(os.getenv("FLAG_FUSED", "False")):\n'
    )
    assert family_of(title + cut) == "config_error"
