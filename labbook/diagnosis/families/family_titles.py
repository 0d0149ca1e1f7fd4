"""What a finding says that names only the family of a failure."""

from __future__ import annotations

_TITLES = {
    "cuda_oom": ("The GPU has no memory left", "GPU 显存不足"),
    "host_oom_killed": ("The machine has no memory left", "内存不足"),
    "shape_mismatch": ("Two shapes do not fit each other", "两个形状不匹配"),
    "dtype_mismatch": ("Two data types do not fit each other", "两个数据类型不匹配"),
    "device_mismatch": ("Two tensors are on different devices", "两个张量不在同一设备上"),
    "inplace_modification": ("A tensor that the gradient needs was changed in place", "求梯度所需的张量被原地修改"),
    "backward_twice": ("A graph was gone through backward twice", "对同一计算图反向传播了两次"),
    "no_grad_path": ("The loss does not depend on anything that is trained", "损失不依赖任何可训练的参数"),
    "non_scalar_backward": ("A gradient was asked of something that is no scalar", "对非标量求梯度"),
    "nan_or_inf": ("A value is NaN or infinite", "某个值是 NaN 或无穷"),
    "index_out_of_range": ("An index or a label is larger than what it points into", "某个下标或标签超出了范围"),
    "cuda_device_assert": ("A check inside of a CUDA kernel failed", "CUDA 核函数内部的断言失败"),
    "cudnn_error": ("A library of CUDA reports an error", "CUDA 的某个库报错"),
    "cuda_driver_mismatch": ("The program wants a GPU and cannot use one", "程序需要 GPU，但无法使用"),
    "nccl_or_collective": ("Processes could not work together", "进程之间无法协作"),
    "ddp_unused_parameters": ("Some parameters took no part in the loss", "部分参数没有参与损失的计算"),
    "dataloader_worker_died": ("A process that loads data ended", "加载数据的进程退出了"),
    "shared_memory": ("There is not enough shared memory", "共享内存不足"),
    "pickling_error": (
        "An object cannot be sent to another process or into a file",
        "某个对象无法传给另一个进程或写入文件",
    ),
    "checkpoint_key_mismatch": ("The names in the checkpoint are not those of the model", "检查点中的名称与模型不符"),
    "checkpoint_size_mismatch": ("The sizes in the checkpoint are not those of the model", "检查点中的尺寸与模型不符"),
    "checkpoint_load_error": ("A checkpoint could not be read", "检查点无法读取"),
    "missing_dependency": ("A package is not installed as it should be", "某个软件包没有正确安装"),
    "import_abi_mismatch": ("A compiled package does not fit what it is used with", "编译的软件包与环境不匹配"),
    "api_version_mismatch": (
        "The program was written for another version of a library",
        "程序是为某个库的另一个版本编写的",
    ),
    "file_not_found": ("A file or folder is not where it is looked for", "文件或目录不在程序查找的位置"),
    "permission_error": ("A file or device may not be used", "没有使用某个文件或设备的权限"),
    "disk_full": ("The disk is full", "磁盘已满"),
    "port_in_use": ("A port is already in use", "端口已被占用"),
    "data_empty": ("There is no data to read", "没有可读的数据"),
    "data_decode_error": ("A file cannot be read as what it should be", "文件无法按应有的格式读取"),
    "config_error": ("A setting has a value that is not allowed", "某项设置的取值不被允许"),
    "type_error_user_code": ("A value has another type than the one that is wanted", "某个值的类型与要求的不同"),
    "illegal_instruction_or_segfault": ("The process crashed in native code", "进程在本地代码中崩溃"),
    "illegal_memory_access": (
        "A CUDA kernel read or wrote memory that is not its own",
        "CUDA 核函数访问了不属于它的显存",
    ),
    "unsupported_op": ("An operation is not supported here", "此处不支持该运算"),
    "compile_error": ("The program could not be compiled", "程序无法编译"),
    "timeout": ("Something took longer than it was given", "某项操作超过了给定的时间"),
    "interrupted": ("The run was interrupted", "运行被中断"),
    "other": ("The program failed", "程序失败"),
}


def title_of(family: str, language: str) -> str:
    """One sentence without a full stop.

    Args:
        family: Of `labbook.model.symptom.CRASH_FAMILIES`.
        language: "en" or "zh"; English for any other.
    """
    english, chinese = _TITLES[family]
    return chinese if language == "zh" else english
