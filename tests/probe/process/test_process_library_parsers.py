"""What a library parsed, or an object for settings holds, arrives with the values of the run."""

import sys

import pytest

from labbook.probe.process.library_parsers import _hyperparameters, _keras_optimizer

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


@pytest.mark.parametrize(("config", "settings"), [
    ({"name": "adam", "learning_rate": 0.0020000000949949026, "weight_decay": None, "beta_1": 0.9},
     {"learning_rate": 0.002, "optimizer": "Adam"}),
    ({"learning_rate": {"class_name": "CosineDecay"}, "momentum": 0.9},
     {"learning_rate": {"class_name": "CosineDecay"}, "momentum": 0.9, "optimizer": "Adam"}),
    (None, {}),
])  # fmt: skip
def test_the_rate_of_an_optimizer_of_keras_is_a_setting(config, settings):
    kind = type("Adam", (), {"get_config": lambda self: config})
    model = type("Model", (), {"optimizer": None if config is None else kind()})
    assert _keras_optimizer(model) == ("compile", settings)


def test_bindings_of_gin_are_recorded_with_defaults_of_the_program_not_of_libraries(probed):
    pytest.importorskip("gin")
    probed.write(
        "train.py",
        "import fractions, gin\n"
        "@gin.configurable\ndef train(lr=0.1, width=8, data=None, kind=None): data()\n"
        "@gin.configurable\ndef data(n=4): kind = fraction(3)\n"
        "fraction = gin.external_configurable(fractions.Fraction)\n"
        "gin.parse_config('WIDTH = 16\\ntrain.width = %WIDTH\\ntrain.data = @data\\neval/data.n = 2')\n"
        "gin.bind_parameter('train.lr', 0.5)\ntrain()\n",
    )
    (values,) = probed(sys.executable, "train.py").options("gin")
    own = {"train.lr": 0.5, "train.width": "%WIDTH", "train.data": "@data", "train.kind": None, "data.n": 4}
    assert values == {**own, "eval/data.n": 2, "WIDTH": 16}


def test_a_module_of_a_library_is_recorded_without_its_defaults_but_with_the_rates():
    nn = pytest.importorskip("torch.nn")

    class Own(nn.Linear):
        def __init__(self, lr=0.1, width=3):
            super().__init__(4, width)

    of_library, own = nn.AlphaDropout(), Own()
    of_library._hparams = {"p": 0.5, "inplace": True, "lr": 0.1, "_path": ""}
    own._hparams = {"lr": 0.1, "width": 3}
    assert _hyperparameters(of_library)[1] == {"inplace": True, "lr": 0.1}
    assert _hyperparameters(own) == ("Own", own._hparams, own._hparams)


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
