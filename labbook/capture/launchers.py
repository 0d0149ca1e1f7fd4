"""Launchers such as torchrun, and the command lines behind them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from labbook.frozen import dataclass


@dataclass(frozen=True)
class Launcher:
    """The command line of one launcher.

    Args:
        flags: Options without a value; every other option has one unless it contains "=".
        words: Words that must follow the launcher's name ("run" of `uv run`).
        positionals: Number of arguments before the program (the duration of `timeout 10 python ...`).
        module: Options after which the program is a module.
        python: Whether the program is a Python script even without the ending `.py`.
    """

    flags: frozenset[str] = frozenset()
    words: tuple[str, ...] = ()
    positionals: int = 0
    module: frozenset[str] = frozenset()
    python: bool = False


def _flags(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TORCHRUN = Launcher(
    flags=_flags("--standalone --no-python --no_python --run-path --run_path -h --help --use-env --use_env"),
    module=frozenset({"-m", "--module"}),
    python=True,
)
_PADDLE = Launcher(flags=_flags("-h --help"), python=True)
_ACCELERATE = Launcher(
    flags=_flags(
        "--cpu --multi_gpu --tpu --ipex --use_deepspeed --use_fsdp --use_megatron_lm --use_xpu --same_network "
        "--no_python --debug -q --quiet --tpu_cluster --no_tpu_cluster --tpu_use_cluster --tpu_use_sudo --use_tpu "
        "--enable_cpu_affinity --dynamo_use_fullgraph --dynamo_use_dynamic --use_parallelism_config -h --help"
    ),
    words=("launch",),
    module=frozenset({"-m", "--module"}),
    python=True,
)
_DEEPSPEED = Launcher(
    flags=_flags("--force_multi --no_python --no_local_rank --no_ssh --no_ssh_check --enable_each_rank_log -h --help"),
    module=frozenset({"--module"}),
    python=True,
)
_MPI = Launcher(
    flags=_flags(
        "--allow-run-as-root --oversubscribe --bind-to-core --report-bindings --tag-output -v --verbose -q --quiet "
        "--do-not-launch -nolocal --nolocal -prepend-rank --prepend-rank -l --gloo --mpi"
    )
)
_SRUN = Launcher(
    flags=_flags(
        "--exclusive --overlap --pty -l --label -u --unbuffered -v --verbose -Q --quiet --contiguous -O --overcommit "
        "-s --oversubscribe -X --disable-status --exact --no-kill -k --reboot --spread-job --use-min-nodes"
    )
)

_RAY_JOB = Launcher(_flags("--no-wait -v --verbose"), ("job", "submit"))

LAUNCHERS: dict[str, Launcher] = {
    "torchrun": _TORCHRUN,
    "torch.distributed.run": _TORCHRUN,
    "torch.distributed.launch": _TORCHRUN,
    "fleetrun": _PADDLE,
    "paddle.distributed.launch": _PADDLE,
    "paddle.distributed.fleet.launch": _PADDLE,
    "accelerate": _ACCELERATE,
    "accelerate.commands.launch": Launcher(_ACCELERATE.flags, (), 0, _ACCELERATE.module, True),
    "accelerate-launch": Launcher(_ACCELERATE.flags, (), 0, _ACCELERATE.module, True),
    "deepspeed": _DEEPSPEED,
    "deepspeed.launcher.runner": _DEEPSPEED,
    "horovodrun": _MPI,
    "mpirun": _MPI,
    "mpiexec": _MPI,
    "orterun": _MPI,
    "srun": _SRUN,
    "ray": _RAY_JOB,
    "ray.scripts.scripts": _RAY_JOB,
    "uv": Launcher(
        _flags(
            "--no-sync --frozen --locked --isolated --all-extras --no-dev --dev --only-dev --exact --no-project -q "
            "--quiet -v --verbose --offline --no-config --active --all-packages --no-editable --refresh --reinstall "
            "--no-cache -n --script -s --no-env-file --no-progress --managed-python --no-managed-python --native-tls"
        ),
        ("run",),
        module=frozenset({"-m", "--module"}),
    ),
    "poetry": Launcher(_flags("-q --quiet -v -vv -vvv -n --no-interaction --no-ansi --no-plugins"), ("run",)),
    "pdm": Launcher(_flags("-s --site-packages -q -v --no-isolation"), ("run",)),
    "pipenv": Launcher(_flags("--system --quiet --verbose"), ("run",)),
    "hatch": Launcher(_flags("-q -v --no-color"), ("run",)),
    "rye": Launcher(_flags("-q -v"), ("run",)),
    "pixi": Launcher(_flags("-q -v --frozen --locked --no-install --as-is --clean-env"), ("run",)),
    "conda": Launcher(_flags("-v --verbose --no-capture-output --live-stream --debug-wrapper-scripts --dev"), ("run",)),
    "mamba": Launcher(_flags("-v --verbose --no-capture-output --live-stream"), ("run",)),
    "micromamba": Launcher(_flags("-v --verbose -d --detach --clean-env"), ("run",)),
    "coverage": Launcher(
        _flags("-a --append --branch -L --pylib -p --parallel-mode --timid"),
        ("run",),
        module=frozenset({"-m"}),
        python=True,
    ),
    "ddtrace-run": Launcher(_flags("-d --debug -p --profiling")),
    "opentelemetry-instrument": Launcher(),
    "viztracer": Launcher(_flags("--quiet --ignore_c_function --ignore_frozen --log_async --open"), python=True),
    "scalene": Launcher(_flags("--cli --json --html --cpu --gpu --memory --cpu-only --reduced-profile"), python=True),
    "kernprof": Launcher(_flags("-l --line-by-line -b --builtin -v --view"), module=frozenset({"-m"}), python=True),
    "pdb": Launcher(module=frozenset({"-m"}), python=True),
    "cProfile": Launcher(module=frozenset({"-m"}), python=True),
    "profile": Launcher(module=frozenset({"-m"}), python=True),
    "trace": Launcher(_flags("-t --trace -c --count -T --trackcalls"), module=frozenset({"--module"}), python=True),
    "debugpy": Launcher(_flags("--wait-for-client"), module=frozenset({"-m"}), python=True),
    "nsys": Launcher(words=("profile",)),
    "ncu": Launcher(_flags("-f --force-overwrite")),
    "nohup": Launcher(),
    "setsid": Launcher(_flags("-c --ctty -f --fork -w --wait")),
    "nice": Launcher(),
    "ionice": Launcher(_flags("-t --ignore")),
    "chrt": Launcher(_flags("-b -f -i -o -r --batch --fifo --idle --other --rr"), positionals=1),
    "time": Launcher(_flags("-p --portability -v --verbose -a --append")),
    "timeout": Launcher(_flags("--foreground --preserve-status -v --verbose"), positionals=1),
    "stdbuf": Launcher(),
    "taskset": Launcher(_flags("-a --all-tasks -c --cpu-list -p --pid"), positionals=1),
    "numactl": Launcher(_flags("-l --localalloc -a --all")),
    "xvfb-run": Launcher(_flags("-a --auto-servernum -l --listen-tcp")),
    "unbuffer": Launcher(_flags("-p")),
    "catchsegv": Launcher(),
    "exec": Launcher(_flags("-c -l")),
    "command": Launcher(),
}
"""Launchers, and modules that act as one, by name. Source: their `--help`, 2026."""

_PROGRAM_ENDINGS = (".py", ".pyw", ".sh", ".bash", ".ipynb")


def _looks_like_program(word: str) -> bool:
    """Whether a word can only be the program: a script, an interpreter or another launcher."""
    name = PurePath(word).name
    return word.endswith(_PROGRAM_ENDINGS) or name in LAUNCHERS or is_python(name) or name in ("bash", "sh", "env")


def is_python(name: str) -> bool:
    """Whether this is the name of a Python interpreter ("python", "python3.11", "pypy3")."""
    for stem in ("python", "pypy"):
        if name.startswith(stem):
            rest = name.removeprefix(stem).removesuffix("-dbg").removeprefix("w").removesuffix("t")
            return all(part.isdigit() for part in rest.split(".") if part) and not rest.startswith(".")
    return False


def unwrap_launcher(launcher: Launcher, words: Sequence[str]) -> tuple[list[str], bool]:
    """Returns the command behind a launcher, and whether its first word is a module.

    Returns:
        The words from the program on, empty if there is none; and whether the program is a module.
    """
    rest = list(words)
    for word in launcher.words:
        if word not in rest:
            return [], False
        del rest[: rest.index(word) + 1]
    left = launcher.positionals
    at = 0
    while at < len(rest):
        word = rest[at]
        if word == "--":
            return rest[at + 1 :], False
        if word in launcher.module:
            return rest[at + 1 :], True
        if word.startswith("-") and len(word) > 1:
            at += 2 if _takes_value(word, rest[at + 1 :], launcher) else 1
        elif left:
            left -= 1
            at += 1
        else:
            return rest[at:], False
    return [], False


def _takes_value(option: str, rest: Sequence[str], launcher: Launcher) -> bool:
    if "=" in option or option in launcher.flags or not rest or rest[0].startswith("-"):
        return False
    if not option.startswith("--") and len(option) > 2 and (option[2:].isdigit() or option[1:].isdigit()):
        return False  # `-n4`, `-10`: the word contains the value
    return not _looks_like_program(rest[0])
