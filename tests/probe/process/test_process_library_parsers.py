"""What a library parsed, or an object for settings holds, arrives with the values of the run."""

import sys

import pytest

FIELDS = "from dataclasses import dataclass\n@dataclass\nclass Args:\n    lr: float = 0.1\n    n: int = 3\n"
FLAGS = "from absl import app, flags\nflags.DEFINE_float('lr', 0.1, '')\n"
PARSERS = {
    "tyro": (FIELDS + "x = tyro.cli(Args)", {"lr": 0.5, "n": 3}),
    "fire": ("def train(lr=0.1, *, n=3): pass\nfire.Fire(train)", {"lr": 0.5}),
    "draccus": (FIELDS + "x = draccus.parse(Args)", {"lr": 0.5, "n": 3}),
    "jsonargparse": (
        "p = jsonargparse.ArgumentParser()\np.add_argument('--lr', type=float)\nx = p.parse_args()",
        {"lr": 0.5},
    ),
    "absl": (FLAGS + "def main(_): pass\napp.run(main)", {"lr": 0.5}),
    "pydantic_settings": (
        "class S(pydantic_settings.BaseSettings):\n    lr: float = 0.1\n    n: int = 3\n"
        "    model_config = {'cli_parse_args': True}\nS()",
        {"lr": 0.5, "n": 3},
    ),
    "docopt": (
        '"""x\n\nUsage:\n  train.py [--lr=<x>]\n"""\nfrom docopt import docopt\n'
        "def main():\n    docopt(__doc__)\nmain()",
        {"--lr": "0.5"},
    ),
    "typer": ("def main(lr: float = 0.1, n: int = 3): pass\ntyper.run(main)", {"lr": 0.5, "n": 3}),
}
SOURCES = {"pydantic_settings": "pydantic", "typer": "click"}


@pytest.mark.parametrize("library", PARSERS)
def test_what_a_library_parsed_is_recorded_not_its_defaults(probed, library):
    pytest.importorskip(library)
    program, expected = PARSERS[library]
    probed.write("train.py", program if program.startswith('"""') else f"import {library}\n{program}\n")
    done = probed(sys.executable, "train.py", "--lr", "0.5")
    assert done.options(SOURCES.get(library, library)) == [expected]
    assert done.options("argparse") == []


def test_options_of_a_configuration_of_absl_are_recorded_with_what_was_given(probed):
    pytest.importorskip("ml_collections")
    probed.write(
        "train.py",
        "from absl import app\nfrom ml_collections import ConfigDict, config_flags\n"
        "given = config_flags.DEFINE_config_dict('config', ConfigDict({'lr': 0.1, 'model': {'width': 8}}))\n"
        "app.run(lambda _: print(given.value.lr))\n",
    )
    done = probed(sys.executable, "train.py", "--config.lr=0.5")
    (values,) = done.options("absl")
    assert values["config"] == {"lr": 0.5, "model": {"width": 8}}


INI = "from configparser import ConfigParser\nX = ConfigParser(); "
HOLDERS = {
    "configparser": (
        INI + "X.read_string('[train]\\nlr = 0.5\\nto = %(no)s')",
        {"train": {"lr": "0.5", "to": "%(no)s"}},
    ),
    "a section": (
        INI + "X.read_string('[train]\\nlr = 0.5'); X = X['train']",
        {"lr": "0.5"},
    ),
    "ml_collections": (
        "from ml_collections import ConfigDict\nX = ConfigDict({'lr': 0.5, 'model': {'width': 8}})",
        {"lr": 0.5, "model": {"width": 8}},
    ),
    "a dataclass of any name": (
        "from dataclasses import dataclass, field\n@dataclass\nclass Optim:\n    lr: float = 0.5\n@dataclass\n"
        "class Plan:\n    epochs: int = 3\n    optim: Optim = field(default_factory=Optim)\nX = Plan()",
        {"epochs": 3, "optim": {"lr": 0.5}},
    ),
    "a dataclass of a training": (
        "from dataclasses import dataclass\n@dataclass\nclass State:\n"
        "    lr: float\n    epochs: int\n    model: object\nX = State(0.5, 3, object())",
        None,
    ),
}


@pytest.mark.parametrize("kind", HOLDERS)
def test_an_object_for_settings_is_recorded_under_any_name(probed, kind):
    if kind == "ml_collections":
        pytest.importorskip(kind)
    program, expected = HOLDERS[kind]
    probed.write("train.py", program + "\n")
    assert probed(sys.executable, "train.py").options("dict") == ([] if expected is None else [expected])
