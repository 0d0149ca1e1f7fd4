"""Options and configuration files arrive as plain data, without secrets."""

import json
import sys

import pytest

ARGPARSE = """
import argparse
p = argparse.ArgumentParser()
p.add_argument("--lr", type=float, default=0.1)
p.add_argument("--hub-token", default="")
p.add_argument("--dims", type=int, nargs="*", default=[])
sub = p.add_subparsers(dest="what")
t = sub.add_parser("train"); t.add_argument("--epochs", type=int, default=3)
print(p.parse_args())
print(argparse.ArgumentParser.parse_known_args.__name__, argparse.ArgumentParser.parse_args.__qualname__)
"""


def test_an_argparse_namespace_is_recorded_once_with_its_sub_command(probed, python):
    probed.write("train.py", ARGPARSE)
    words = ["train.py", "--dims", "1", "2", "--lr", "nan", "--hub-token", "zq81xYt55wpL", "train", "--epochs", "5"]
    done = probed(python, *words)
    assert done.out == probed.plain(python, *words).stdout
    assert done.options("argparse") == [
        {"lr": "nan", "hub_token": "[REDACTED:secret]", "dims": [1, 2], "what": "train", "epochs": 5}
    ]
    assert "zq81xYt55wpL" not in str(done.files)


def test_known_and_remaining_arguments_and_subclasses_work(probed, python):
    code = (
        "import argparse\n"
        "class Mine(argparse.ArgumentParser):\n"
        "    def parse_known_args(self, args=None, namespace=None):\n"
        "        return super().parse_known_args(args, namespace)\n"
        "p = Mine(); p.add_argument('--a', default=argparse)\n"
        "print(p.parse_known_args(['--b', '1']))\n"
    )
    done = probed(python, "-c", code)
    assert "['--b', '1']" in done.out
    assert done.options("argparse") == [{"a": "<module argparse>"}]


def test_options_of_a_launcher_are_not_those_of_the_program(probed):
    probed.write("torch/__init__.py", "")
    probed.write("torch/run.py", ARGPARSE)
    done = probed(sys.executable, "-m", "torch.run")
    assert done.options("argparse") == []


@pytest.mark.parametrize(
    ("path", "count"),
    [
        ("lib/site-packages/ray/dashboard/dashboard.py", 0),
        ("lib/ray/_private/log_monitor.py", 0),
        ("ray/dashboard/train.py", 1),  # of a project
    ],
)
def test_options_of_programs_of_ray_are_not_those_of_the_program(probed, path, count):
    probed.write(path, ARGPARSE)
    assert len(probed(sys.executable, path).options("argparse")) == count


def test_click_options_are_recorded(probed):
    pytest.importorskip("click")
    probed.write(
        "train.py",
        "import click\n"
        "@click.group()\n"
        "@click.option('--seed', default=1)\n"
        "def main(seed): pass\n"
        "@main.command()\n"
        "@click.option('--lr', type=float)\n"
        "@click.option('--password')\n"
        "def train(lr, password): print(lr)\n"
        "main()\n",
    )
    done = probed(sys.executable, "train.py", "--seed", "4", "train", "--lr", "0.5", "--password", "zq81xYt55wpL")
    assert done.out == "0.5\n"
    assert done.options("click") == [{"seed": 4}, {"lr": 0.5, "password": "[REDACTED:password]"}]


def test_click_options_with_their_default_are_named(probed):
    pytest.importorskip("click")
    probed.write(
        "train.py",
        "import click\n@click.command()\n@click.option('--lr', default=0.1)\n@click.option('--n', default=3)\n"
        "def main(lr, n): pass\nmain()\n",
    )
    (event,) = [e for e in probed(sys.executable, "train.py", "--lr", "0.1").of("arguments") if e["source"] == "click"]
    assert (event["values"], event["unchanged"]) == ({"lr": 0.1, "n": 3}, ["n"])


def test_parameters_of_papermill_are_recorded_and_its_own_options_are_not(probed):
    pytest.importorskip("click")
    probed.write("papermill/__init__.py", "")
    probed.write(
        "papermill/execute.py", "def execute_notebook(input_path, output_path, parameters=None, cwd=None): pass\n"
    )
    probed.write(
        "papermill/cli.py",
        "import click\nfrom papermill.execute import execute_notebook\n@click.command()\n"
        "@click.option('--log-level', default='INFO')\ndef main(log_level):\n"
        "    execute_notebook('a.ipynb', 'b.ipynb', parameters={'lr': 0.3, 'name': 'x'})\n",
    )
    done = probed(sys.executable, "-c", "from papermill.cli import main; main([])")
    assert [(e["source"], e["name"], e["values"]) for e in done.of("arguments")] == [
        ("papermill", "a.ipynb", {"lr": 0.3, "name": "x"})
    ]


SETTINGS = """
import argparse, collections, dataclasses, enum, pathlib, types
class Mode(enum.Enum):
    FAST = 1
@dataclasses.dataclass
class Sizes:
    width: int = 8
    where: pathlib.Path = pathlib.Path("data")
class CFG:
    depth = 3
    _private = 1
    def method(self): pass
class Odd:
    def __repr__(self): raise RuntimeError("never asked")
config = {"lr": 0.1, "mode": Mode.FAST, "sizes": Sizes(), "odd": Odd(), 3: float("inf"), "api_key": "zq81xYt55wpL",
          "call": print, "nested": {"a": [1, (2, {"b": {1, 2}})]}}
args = argparse.Namespace(x=1)
hparams = collections.OrderedDict(a=1)
opt = types.SimpleNamespace(beta=0.9)
BATCH_SIZE = 32
lr = 0.5
steps = len("abc") // 2
loss = float("0.123")
_HIDDEN = 1
"""


def test_settings_in_the_main_module_are_recorded(probed, python):
    probed.write("train.py", SETTINGS)
    done = probed(python, "train.py")
    written = {event["name"]: event["values"] for event in done.of("arguments")}
    assert written["config"] == {
        "lr": 0.1,
        "mode": "Mode.FAST",
        "sizes": {"width": 8, "where": "data"},
        "odd": "<__main__.Odd>",
        "3": "inf",
        "api_key": "[REDACTED:secret]",
        "call": "builtins.print",
        "nested": {"a": [1, [2, {"b": ["1", "2"]}]]},
    }
    assert written["CFG"] == {"depth": 3}
    assert written["args"] == {"x": 1}
    assert written["hparams"] == {"a": 1}
    assert written["opt"] == {"beta": 0.9}
    assert written["__main__"] == {"BATCH_SIZE": 32, "lr": 0.5}


UNUSUAL = """
import sys, types
sys.modules["torch"] = types.ModuleType("torch")
import lab.settings as S
from dataclasses import dataclass
@dataclass
class Args:
    steps: int = 3
A = Args(steps=5)
G = {"epochs": 4, "net": {"dropout": 0.1, "sizes": [1, 2]}}
history = {"lr": [0.1] * 9, "epochs": list(range(9))}
best = {"lr": 0.1, "seed": 1, "model": {"weight": object()}}
row = {"lr": 0.1, "loss": 0.5}
again = {"lr": 1, "seed": 2}
again["again"] = again
"""


def test_settings_of_any_name_are_known_by_their_keys_and_modules_by_their_name(probed, python):
    probed.write("train.py", UNUSUAL)
    probed.write("lab/settings.py", "import os\nWIDTH, rate = 8, 0.5\nGPU = os.environ.get('NO_GPU', '0')\nPAIRS = [1]")
    written = {event["name"]: event["values"] for event in probed(python, "train.py").of("arguments")}
    assert written == {
        "lab.settings": {"WIDTH": 8, "rate": 0.5, "GPU": "0"},
        "A": {"steps": 5},
        "G": {"epochs": 4, "net": {"dropout": 0.1, "sizes": [1, 2]}},
    }


def test_a_dictionary_of_a_package_is_no_setting_of_the_program_that_imports_all(probed, python):
    probed.write("site-packages/lib.py", "names = {'momentum': 'mom', 'weight_decay': 'wd'}")
    probed.write("own.py", "table = {'momentum': 0.9, 'weight_decay': 0.1}")
    probed.write("train.py", "import sys\nsys.path.insert(0, 'site-packages')\nfrom lib import *\nfrom own import *")
    assert probed(python, "train.py").options("dict") == [{"momentum": 0.9, "weight_decay": 0.1}]


def test_settings_are_recorded_at_the_first_step(probed):
    code = (
        "import os, sys\nconfig = {'a': 1}\nsys._labbook_probe.step = 1\nconfig = {'a': 2}\n"
        "sys._labbook_probe.step = 2\nos._exit(0)"
    )
    assert probed(sys.executable, "-c", code).options("dict") == [{"a": 1}]


def test_a_function_with_nothing_of_its_own_is_read(probed):
    code = """
def train(config):
    first = 1
    def step():
        sys._labbook_probe.step = first
    step()
import sys
train({'lr': 0.5})
"""
    done = probed(sys.executable, probed.write("train.py", code))
    assert done.of("probe_error") == [] and {"lr": 0.5} in [event["values"] for event in done.of("arguments")]


def test_settings_that_refer_to_themselves_end(probed):
    code = "config = {'a': 1}; config['self'] = config; config['list'] = [config]"
    (written,) = probed(sys.executable, "-c", code).options("dict")
    assert written["a"] == 1


READ = """
import sys
for name in sys.argv[1:]:
    print(len(open(name.partition("=")[2] or name, "rb").read()))
"""


def test_configuration_files_of_the_project_are_recorded(probed, python, tmp_path):
    (tmp_path / "elsewhere.toml").write_text("lr = 1")
    (tmp_path / "linked.yaml").write_text("far: away")
    (probed.folder / "linked.yaml").symlink_to(tmp_path / "linked.yaml")
    probed.write("read.py", READ + "open(sys.argv[0].replace('read.py', 'linked.yaml')).read()\n")
    probed.write("conf/train.yaml", "lr: 0.1\npassword: correct-horse-7battery\nhome: /home/alice/x\n")
    probed.write("big.json", '{"a": "' + "x" * 70000 + '"}')
    probed.write("list.json", "[1, 2]")
    probed.write("big.ini", "[a]\n" + "b = 1\n" * 20000)
    probed.write("secrets.yaml", "a: 1")
    probed.write("package.json", "{}")
    names = ["conf/train.yaml", "big.json", "list.json", "big.ini", "secrets.yaml", "package.json"]
    done = probed(python, "read.py", *names, f"--config={tmp_path / 'elsewhere.toml'}")
    written = {event["path"].rpartition("/")[2]: event for event in done.of("config")}
    assert set(written) == {"train.yaml", "big.ini", "elsewhere.toml"}
    assert written["train.yaml"]["format"] == "yaml"
    assert written["train.yaml"]["text"].startswith("lr: 0.1\npassword: [REDACTED")
    assert "alice" not in written["train.yaml"]["text"]
    assert not written["train.yaml"]["truncated"]
    assert written["big.ini"]["truncated"]
    assert len(written["big.ini"]["text"]) == 64 * 1024
    assert written["elsewhere.toml"]["text"] == "lr = 1"
    assert "correct-horse-7battery" not in str(done.files)
    assert done.paths() >= {"train.yaml", "big.json", "secrets.yaml"}


def test_special_files_are_never_opened_a_second_time(probed):
    probed.write(
        "read.py",
        "import os, threading\n"
        "os.mkfifo('pipe.yaml')\n"
        "t = threading.Thread(target=lambda: open('pipe.yaml', 'w').write('a: 1')); t.start()\n"
        "print(open('pipe.yaml').read()); t.join()\n",
    )
    done = probed(sys.executable, "read.py")
    assert done.out == "a: 1\n"
    assert done.of("config") == []


def test_omegaconf_and_hydra_are_recorded(probed):
    pytest.importorskip("hydra")
    probed.write("conf/config.yaml", "lr: 0.1\nmodel:\n  width: ${lr}\n")
    probed.write(
        "train.py",
        "import hydra\n"
        "@hydra.main(config_path='conf', config_name='config', version_base=None)\n"
        "def main(cfg): print(cfg.lr)\n"
        "main()\n",
    )
    done = probed(sys.executable, "train.py", "lr=0.5", "hydra.run.dir=.")
    assert done.options("hydra") == [{"lr": 0.5, "model": {"width": "${lr}"}}]


KERNEL = {
    "shell_port": 60495, "iopub_port": 34961, "stdin_port": 34745, "control_port": 41087, "hb_port": 50559,
    "ip": "127.0.0.1", "transport": "tcp", "signature_scheme": "hmac-sha256", "kernel_name": "python3",
}  # fmt: skip
SERVER = {"base_url": "/", "hostname": "localhost", "port": 8888, "pid": 71, "url": "http://localhost:8888/"}
ENGINES = {"signature_scheme": "hmac-sha256", "interface": "tcp://127.0.0.1", "registration": 51001, "ssh": ""}
RUNTIME_FILES = {
    "any-name.json": {**KERNEL, "key": "{key}"},
    "unsigned.json": {**{k: v for k, v in KERNEL.items() if k != "signature_scheme"}, "key": "{key}"},
    "ipc.json": {"transport": "ipc", "ip": "sock", "shell_port": 1, "iopub_port": 2, "key": "{key}"},
    "jpserver-71.json": {**SERVER, "token": "{key}"},
    "nbserver-71.json": {**SERVER, "token": "{key}", "password": False, "notebook_dir": "x"},
    "ipcontroller-client.json": {**ENGINES, "key": "{key}"},
    "engine.json": {**ENGINES, "exec_key": "{key}"},
    "cut.json": '{"signature_scheme": "hmac-sha256", "key": "{key}"',
    "jupyter/runtime/other.json": {"anything": "{key}"},
    "mine/other.json": {"anything": "{key}"},
}


def test_runtime_files_with_the_key_of_a_server_are_no_configuration(probed, tmp_path):
    key = "4881f5db-58dd22529121dc749841c4a2"
    for name, facts in RUNTIME_FILES.items():
        text = facts if isinstance(facts, str) else json.dumps(facts, indent=2)
        probed.write(name, text.replace("{key}", key))
    probed.write("read.py", READ)
    done = probed(sys.executable, "read.py", *RUNTIME_FILES, JUPYTER_RUNTIME_DIR=str(probed.folder / "mine"))
    assert len(done.out.splitlines()) == len(RUNTIME_FILES)
    assert key not in str(done.files)
    assert done.of("config") == []
    assert "other.json" not in done.paths()


CONFIGURATIONS = {
    "ports.json": {"web_port": 80, "metrics_port": 90},
    "database.json": {"host": "db", "port": 5432, "user": "lab"},
    "controller.json": {"pid": {"kp": 1.0, "ki": 0.1}, "port": "/dev/ttyUSB0"},
    "lookup.json": {"key": "value", "shell_port": 1},
}


def test_configurations_with_ports_and_keys_stay_configurations(probed):
    for name, facts in CONFIGURATIONS.items():
        probed.write(name, json.dumps(facts))
    probed.write("read.py", READ)
    done = probed(sys.executable, "read.py", *CONFIGURATIONS)
    assert {event["path"].rpartition("/")[2] for event in done.of("config")} == set(CONFIGURATIONS)


def test_options_with_their_default_are_named(probed, python):
    code = (
        "import argparse\n"
        "p = argparse.ArgumentParser(); p.add_argument('--lr', type=float, default=0.1)\n"
        "p.add_argument('--n', default=3)\n"
        "p.parse_args(['--lr', '0.5'])\n"
    )
    event = next(e for e in probed(python, "-c", code).of("arguments") if e["source"] == "argparse")
    assert (event["values"], event["unchanged"]) == ({"lr": 0.5, "n": 3}, ["n"])


def test_the_fields_of_a_dataclass_are_no_settings_but_its_instance_is(probed, python):
    probed.write(
        "train.py",
        "import dataclasses\n"
        "@dataclasses.dataclass\n"
        "class Args:\n"
        "    steps: int = 500000\n"
        "    lr: float = 0.1\n"
        "args = Args(steps=6000)\n",
    )
    events = [e for e in probed(python, "train.py").of("arguments") if e["source"] == "dict"]
    assert [(e["values"], e["unchanged"]) for e in events] == [({"steps": 6000, "lr": 0.1}, ["lr"])]


def test_settings_of_a_running_function_are_told(probed, python):
    probed.write(
        "train.py",
        "import sys\n"
        "class CfgNode: pass\n"
        "def loop():\n"
        "    sys._labbook_probe._look(1)\n"
        "def main(unused):\n"
        "    config = {'lr': 0.02}\n"
        "    cfg = CfgNode(); cfg.depth = 3\n"
        "    params = {'weight': Tensor()}\n"
        "    loop()\n"
        "class Tensor: ndim, dtype = 2, 'float32'\n"
        "main(1)\n",
    )
    assert probed(python, "train.py").options("dict") == [{"lr": 0.02}, {"depth": 3}]


def test_what_configures_the_object_that_trains_is_told(probed, python):
    probed.write(
        "train.py",
        "import sys, dataclasses\n@dataclasses.dataclass\n"
        "class HP:\n"
        "    depth: int = 3\n"
        "class Agent:\n"
        "    def __init__(self, tau, net, batch_size=64):\n"
        "        self.tau, self.net, self.batch_size = tau, net, batch_size\n"
        "        self.gamma, self.steps, self.best, self._cfg = 0.9, 0, 1e9, HP()\n"
        "    def learn(self):\n"
        "        sys._labbook_probe._look(1)\n"
        "    def learn_again(self): sys._labbook_probe.begin_optimizer()\n"
        "Agent(0.01, object()).learn()\n"
        "Agent(0.05, object()).learn_again()\n",
    )
    events = probed(python, "train.py").of("arguments")
    assert [(e["source"], e["name"], e["values"]) for e in events] == [
        ("dict", "_cfg", {"depth": 3}),
        ("attributes", "Agent", {"tau": 0.01, "batch_size": 64, "gamma": 0.9}),
        ("attributes", "Agent", {"tau": 0.05, "batch_size": 64, "gamma": 0.9}),
    ]
