"""Weights that were to be loaded: options of the command line that name a file which nobody opened."""

import pytest

from labbook.model.run import Process
from labbook.model.run_files import FileUse


def judge(ask, words, opened=(), **fields):
    files = tuple(FileUse(path, "read", 9) for path in opened)
    found = ask("partial_state_load", signals={"loop": {"steps": 9}}, argv=("train.py", *words), files=files, **fields)
    return found and found.verdict


@pytest.mark.parametrize(
    "words",
    [
        ("-o", "pretrained_model=./w/best.pdparams"),
        ("-o", "Global.pretrained=./w/best.pdparams"),
        ("--resume", "w/last.pth"),
        ("--init-ckpt=w/last.ckpt",),
        ("model.weights=w/a.pt",),
    ],
)
def test_weights_of_an_option_that_nobody_opened_were_not_loaded(ask, words):
    assert judge(ask, words, opened=("conf.yaml", "out/other.pth")) == "warn"
    name = words[-1].rpartition("=")[2].rpartition("/")[2]
    assert judge(ask, words, opened=("/data/" + name,)) is None
    assert judge(ask, words, exit_code=1) is None
    assert judge(ask, words, processes=(Process(1, 0, ("train.py",), "main"), Process(2, 1, (), "child", probed=False)),
                 ) is None  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [
        ("--save-weights", "out/last.pth"),
        ("--checkpoint_out=out/last.pth",),
        ("--pretrained", "bert-base-chinese"),
        ("--weights", "w/model.onnx"),  # opened in C
        ("last.pth",),
        ("--fold", "3.pth"),
    ],
)
def test_other_options_say_nothing_of_what_is_loaded(ask, words):
    assert judge(ask, words) is None


def test_files_of_a_folder_may_be_any(ask):
    files = (FileUse("w", "read", 9, members=300),)
    found = ask("partial_state_load", signals={"loop": {"steps": 9}}, argv=("--resume", "w/a.pth"), files=files)
    assert found is None
