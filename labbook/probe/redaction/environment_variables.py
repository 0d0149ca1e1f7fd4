"""Which environment variables may be recorded: an allowlist, never a list of forbidden names."""

ENVIRONMENT_ALLOWED = (
    "CUDA_*", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_TF32_OVERRIDE", "NVIDIA_DRIVER_CAPABILITIES", "NCCL_*", "GLOO_*",
    "UCX_*", "CUBLAS_*", "CUBLASLT_*", "CUDNN_*", "CUTLASS_*", "HIP_*", "ROCR_*", "ROCM_*", "HSA_*", "MIOPEN_*",
    "ASCEND_*", "HCCL_*", "XPU_*", "OMP_*", "KMP_*", "MKL_*", "OPENBLAS_*", "BLIS_*", "NUMEXPR_*", "VECLIB_*",
    "MALLOC_*", "LD_PRELOAD", "PADDLE_*", "FLAGS_*", "TORCH_*", "TORCHELASTIC_*", "TORCHINDUCTOR_*",
    "TORCHDYNAMO_*", "PYTORCH_*", "TRITON_*", "XLA_*", "JAX_*", "TF_CPP_MIN_LOG_LEVEL", "TF_DETERMINISTIC_OPS",
    "TF_ENABLE_ONEDNN_OPTS", "TF_FORCE_GPU_ALLOW_GROWTH", "TF_GPU_ALLOCATOR", "TF_USE_LEGACY_KERAS", "TF_XLA_FLAGS",
    "ACCELERATE_*", "DEEPSPEED_*", "FSDP_*", "RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "NODE_RANK",
    "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_PORT", "SLURM_JOB_ID", "SLURM_JOB_NAME", "SLURM_JOB_NUM_NODES",
    "SLURM_JOB_PARTITION", "SLURM_JOB_GPUS", "SLURM_JOB_CPUS_PER_NODE", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID",
    "SLURM_CPUS_PER_TASK", "SLURM_GPUS*", "SLURM_NTASKS*", "SLURM_NNODES", "SLURM_NODEID", "SLURM_PROCID",
    "SLURM_LOCALID", "PYTHONPATH", "LD_LIBRARY_PATH", "PYTHONHASHSEED", "PYTHONOPTIMIZE", "PYTHONUNBUFFERED",
    "PYTHONFAULTHANDLER", "PYTHONDONTWRITEBYTECODE", "TOKENIZERS_PARALLELISM", "HF_HUB_OFFLINE",
    "HF_DATASETS_OFFLINE", "HF_HUB_ENABLE_HF_TRANSFER", "HF_ENDPOINT", "HF_HOME", "HF_HUB_CACHE",
    "HF_DATASETS_CACHE", "KERAS_BACKEND", "TRANSFORMERS_OFFLINE", "WANDB_MODE", "WANDB_DISABLED",
    "CONDA_DEFAULT_ENV", "LANG", "LC_ALL", "TZ",
)  # fmt: skip
"""Environment variables whose values may be recorded: names, or beginnings of names that end in `*`. All others may be
listed by name only."""


def allowed_environment(environ, extra=()):
    """The variables of `ENVIRONMENT_ALLOWED` and of `extra` (same notation) that are set, by name; not redacted."""
    patterns = (*ENVIRONMENT_ALLOWED, *extra)
    names = {pattern for pattern in patterns if not pattern.endswith("*")}
    starts = tuple(pattern[:-1] for pattern in patterns if pattern.endswith("*"))
    return {name: environ[name] for name in sorted(environ) if name in names or name.startswith(starts)}
