"""Which program stands behind a command."""

from __future__ import annotations

import shlex

import pytest
from order_of_tests import in_one_test

from labbook.capture import command
from labbook.capture.command import find_program_file


@pytest.fixture
def folder(tmp_path):
    for name in (
        "train.py",
        "pkg/__init__.py",
        "pkg/__main__.py",
        "pkg/mod.py",
        "run.sh",
        "nb.ipynb",
        "src/tool/cli.py",
    ):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    return tmp_path


@in_one_test(
    ("line", "script", "kind", "arguments"),
    [
        ("python train.py --lr 1", "train.py", "python", ["--lr", "1"]),
        ("python3.11 -u -X dev -W ignore train.py", "train.py", "python", []),
        ("./train.py a", "train.py", "python", ["a"]),
        ("python -m pkg.mod a", "pkg/mod.py", "module", ["a"]),
        ("python -m pkg", "pkg/__main__.py", "module", []),
        ("python -Im pkg.mod", "pkg/mod.py", "module", []),
        ("python -mpkg.mod", "pkg/mod.py", "module", []),
        ("python -m tool.cli", "src/tool/cli.py", "module", []),
        ("python -m http.server 80", "-m http.server", "module", ["80"]),
        ("python -m pytest -q train.py", "train.py", "python", ["-q", "train.py"]),
        ("pytest pkg/mod.py::test_a -k train", "pkg/mod.py", "python", ["pkg/mod.py::test_a", "-k", "train"]),
        ("python -m unittest -v pkg.mod.Case.test_a", "pkg/mod.py", "python", ["-v", "pkg.mod.Case.test_a"]),
        ("python -m pytest train.py pkg/mod.py", "-m pytest", "module", ["train.py", "pkg/mod.py"]),
        ("python pkg", "pkg/__main__.py", "python", []),
        ("python -c 'print(1)' x", "python -c", "inline", ["x"]),
        ("python", "python", "inline", []),
        ("torchrun --nproc-per-node 2 train.py -a", "train.py", "python", ["-a"]),
        ("torchrun --standalone --nproc_per_node=2 -m pkg.mod", "pkg/mod.py", "module", []),
        ("python -m torch.distributed.run --nproc-per-node 2 --max-restarts 3 train.py", "train.py", "python", []),
        ("python -m torch.distributed.launch --use-env --nproc_per_node=8 train.py -x", "train.py", "python", ["-x"]),
        ("python -m paddle.distributed.launch --gpus 0,1 --log_dir log train.py", "train.py", "python", []),
        ("accelerate launch --multi_gpu --num_processes 2 train.py --a 1", "train.py", "python", ["--a", "1"]),
        ("accelerate launch --config_file c.yaml -m pkg.mod", "pkg/mod.py", "module", []),
        ("deepspeed --num_gpus 2 train.py --deepspeed ds.json", "train.py", "python", ["--deepspeed", "ds.json"]),
        ("bash run.sh 1", "run.sh", "shell", ["1"]),
        ("bash -eux run.sh", "run.sh", "shell", []),
        (
            "sh -c 'cd pkg && CUDA_VISIBLE_DEVICES=0 python mod.py --a 1 > log 2>&1 | tee x'",
            "pkg/mod.py",
            "python",
            ["--a", "1"],
        ),
        ("bash -lc 'source a; conda activate x; torchrun --nproc_per_node 8 train.py'", "train.py", "python", []),
        ("bash -c 'make data'", "make", "program", ["data"]),
        ("env -u A X=1 python train.py", "train.py", "python", []),
        ("env -S 'python -u' train.py", "train.py", "python", []),
        ("/usr/bin/env python3 train.py", "train.py", "python", []),
        ("uv run --with x python train.py", "train.py", "python", []),
        ("uv run train.py", "train.py", "python", []),
        ("uv --quiet run -m pkg.mod", "pkg/mod.py", "module", []),
        ("poetry run python -m pkg.mod", "pkg/mod.py", "module", []),
        ("pipenv run python train.py", "train.py", "python", []),
        ("conda run -n e --no-capture-output python train.py", "train.py", "python", []),
        ("jupyter nbconvert --to notebook --execute nb.ipynb", "nb.ipynb", "notebook", None),
        ("python -m nbconvert --execute nb.ipynb", "nb.ipynb", "notebook", None),
        ("jupyter nbconvert --execute --output done.ipynb nb.ipynb", "nb.ipynb", "notebook", None),
        ("srun -N 1 --gres=gpu:1 python train.py", "train.py", "python", []),
        ("ray job submit --address http://h:8265 --no-wait -- python train.py", "train.py", "python", []),
        ("mpirun -np 4 -x A=1 --allow-run-as-root python train.py", "train.py", "python", []),
        ("timeout -k 5 10 python train.py", "train.py", "python", []),
        ("nohup nice -n 10 python train.py", "train.py", "python", []),
        ("taskset -c 0-3 python train.py", "train.py", "python", []),
        ("python -m pdb train.py", "train.py", "python", []),
        ("python -m cProfile -o out.prof train.py", "train.py", "python", []),
        ("coverage run -m pkg.mod", "pkg/mod.py", "module", []),
        ("nsys profile -o out python train.py", "train.py", "python", []),
        ("make train", "make", "program", ["train"]),
        ("/opt/tools/simulate --steps 3", "simulate", "program", ["--steps", "3"]),
        ("torchrun", "torchrun", "program", []),
    ],
)
def test_script(folder, line, script, kind, arguments):
    program = find_program_file(shlex.split(line), folder)
    assert (program.script, program.kind) == (script, kind)
    if arguments is not None:
        assert list(program.arguments) == arguments
    assert find_program_file(shlex.split(line), folder).script == script


def test_the_script_is_named_from_the_top_of_the_repository(folder):
    (folder / ".git").mkdir()
    assert find_program_file(["python", "mod.py"], folder / "pkg").script == "pkg/mod.py"
    assert find_program_file(["python", "pkg/mod.py"], folder).script == "pkg/mod.py"
    assert find_program_file(["python", str(folder / "pkg" / "mod.py")], folder.parent).script == "pkg/mod.py"
    assert find_program_file(["python", "../train.py"], folder / "pkg").script == "train.py"


def test_a_script_in_another_folder_keeps_its_name(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / "go.py").write_text("")
    assert find_program_file(["python", str(other / "go.py")], folder).script == "go.py"


@pytest.mark.parametrize("argv", [[], ["env"], ["A=1"], ["bash", "-c"], ["sh", "-c", "'"], ["timeout", "5"]])
def test_commands_without_a_program_do_not_fail(folder, argv):
    program = find_program_file(argv, folder)
    assert isinstance(program.script, str) and not program.is_missing


def test_launchers_and_interpreter_are_recorded(folder):
    program = find_program_file(shlex.split("uv run /opt/py/bin/python3 -m torch.distributed.run train.py"), folder)
    assert program.launchers == ("uv", "torch.distributed.run")
    assert program.interpreter == "/opt/py/bin/python3"


def test_capture_redacts_and_lists_only_allowed_variables(folder, make_context):
    environ = {
        "CUDA_VISIBLE_DEVICES": "0",
        "SECRET_THING": "zq9kfh3mmw2x",
        "MY_RUN": "seven",
        "WANDB_API_KEY": "a" * 40,
    }
    context = make_context(
        folder, "python", "train.py", "--api-key", "zq9kfh3mmw2x-abc", environ=environ, environment_allow=("MY_RUN",)
    )
    facts = command.capture(context)
    assert facts["environment"] == {"CUDA_VISIBLE_DEVICES": "0", "MY_RUN": "seven"}
    assert facts["environment_names"] == 2
    assert "zq9kfh3mmw2x" not in str(facts)
    assert facts["line"].startswith("python train.py --api-key ")


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("python nope.py --lr 1", True),
        ("python nope", True),
        ("bash nope.sh", True),
        ("torchrun --nproc_per_node 2 nope.py", True),
        ("jupyter nbconvert --execute nope.ipynb", True),
        ("python train.py", False),
        ("python -m nope", False),
        ("python -c 1", False),
        ("python", False),
        ("bash -c 'cd $JOB && python nope.py'", False),
        ("docker run image python /opt/nope.py", False),
        ("apptainer exec image.sif python /opt/nope.py", False),
        ("srun torchrun /scratch/nope.py", False),
        ("echo nope.py", False),
    ],
)
def test_only_a_script_that_nothing_else_can_find_is_missing(tmp_path, line, missing):
    (tmp_path / "train.py").write_text("")
    assert find_program_file(shlex.split(line), tmp_path).is_missing == missing
