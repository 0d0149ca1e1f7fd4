"""The check of a configuration, on runs that are made up and on real ones."""

from __future__ import annotations

import json
import sys

import pytest

from labbook.findings.configuration_check import add_configuration_check
from labbook.model.run import Arguments, ConfigFile, Run
from labbook.store.config import Config
from labbook.store.notebook import Notebook
from labbook.store.paths import NotebookPaths
from labbook.store.text.sentences import Sentences


@pytest.fixture
def check(tmp_path):
    def rows(yaml="", code="", options=None, argv=(), packages=("yaml",), source="argparse", schema="", **facts):
        (tmp_path / "train.py").write_text(code)
        notebook = Notebook(NotebookPaths(tmp_path), Config(config_schema=schema))
        files = facts.pop("configs", (ConfigFile(str(tmp_path / "train.yaml"), "yaml", yaml),) if yaml else ())
        run = Run(
            "20260101-000000-aaaa", "finished", ("python", "train.py", *argv), str(tmp_path), 1.0, exit_code=0,
            configs=files, packages=packages, sources=(str(tmp_path / "train.py"),),
            arguments=(Arguments(source, "", options, facts.pop("unchanged", ())),) if options else (), **facts,
        )  # fmt: skip
        facts = add_configuration_check(notebook, run).captured.get("configuration", {"rows": []})
        return [(row["certainty"], Sentences("en").fill(row["message"])) for row in facts["rows"]]

    return rows


@pytest.mark.parametrize(
    ("facts", "certainty"),
    [
        ({}, "likely"),
        ({"options": {"lr": "1e-4"}}, "certain"),
        ({"options": {"lr": 1e-4}}, ""),
        ({"code": "lr = float(cfg['lr'])"}, ""),
        ({"code": "print(cfg['lr'])"}, "likely"),
        ({"code": "Loader.add_implicit_resolver('x')"}, ""),
        ({"packages": ("yaml", "omegaconf")}, ""),
        ({"packages": ("yaml", "pydantic")}, ""),
        ({"packages": ()}, ""),
    ],
)
def test_a_number_that_is_text_depends_on_what_the_run_shows(check, facts, certainty):
    found = check("optim:\n  lr: 1e-4\n" if "options" not in facts else "lr: 1e-4\n", **facts)
    assert [row[0] for row in found] == ([certainty] if certainty else [])
    assert all("1.0e-4" in row[1] and "train.yaml:" in row[1] for row in found)


@pytest.mark.parametrize(
    ("yaml", "code", "is_found"),
    [
        ("version: 1.10", "str(cfg['version'])", True),
        ("country: no", "str(cfg['country'])", True),
        ("country: no", "bool(cfg['country'])", False),
        ("lr: 1e-4", "str(cfg['lr'])", True),
        ("limit: 12:30:00", "int(cfg['limit'])", True),
        ("spent: 2024-01-31", "str(cfg['spent'])", False),
    ],
)
def test_a_conversion_counts_where_it_gives_what_was_meant(check, yaml, code, is_found):
    assert bool(check(f"{yaml}\n", code=code)) == is_found


@pytest.mark.parametrize(
    ("yaml", "code", "row"),
    [
        ("clip: inf", "", 'clip (train.yaml:1) is the text "inf", not a number. Write .inf.'),
        ("clip: inf", "clip = float(cfg['clip'])", ""),
        ("norm_type: inf", "", ""),
        ("ms: 30, 60", "", 'ms (train.yaml:1) is the text "30, 60": a list needs brackets. Write [30, 60].'),
        ("ms: 30, 60", "[int(x) for x in cfg['ms'].split(',')]", ""),
    ],
)
def test_a_list_or_an_infinite_value_that_is_text(check, yaml, code, row):
    assert [text for _, text in check(yaml, code)] == ([row] if row else [])


def test_an_option_that_stands_twice(check):
    found = check(
        options={"lr": 0.2, "tags": ["a", "b"]}, argv=("--lr", "0.1", "--tags", "a", "--tags", "b", "--lr=0.2")
    )
    assert found == [("certain", "lr is on the command line with 0.1, 0.2; the run used 0.2.")]
    assert check(options={"lr": 0.1}, argv=("--lr", "0.1", "--lr", "0.1")) == []
    assert (
        check(options={"optim": {"lr": 0.2}}, argv=("optim.lr=0.1", "optim.lr=0.2"), source="hydra")[0][0] == "certain"
    )


def test_a_key_in_two_files(check, tmp_path):
    def files(first, second):
        return tuple(ConfigFile(str(tmp_path / n), "yaml", t) for n, t in (("a.yaml", first), ("b.yaml", second)))

    argv, options = ("--config", "a.yaml", "b.yaml"), {"train": {"lr": 0.01}}
    pair = files("train: {lr: 0.1}\n", "train: {lr: 0.01}\n")
    assert "the run used 0.01" in check(configs=pair, argv=argv, options=options)[0][1]
    assert (
        check(configs=files("train: {lr: 0.1}\n", "base: a.yaml\ntrain: {lr: 0.01}\n"), argv=argv, options=options)
        == []
    )
    assert check(configs=pair, options=options) == []
    assert check(configs=pair, argv=(*argv, "train.lr=0.01"), options=options) == []


PARSER = (
    "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr', type=float)\n"
    "p.add_argument('--warmup', type=int)\nargs = p.parse_args()\n"
)


@pytest.mark.parametrize(
    ("code", "is_unread"),
    [
        ("train(args.lr)", True),
        ("def train(o): print(o.lr)\ntrain(args)", True),
        ("print(args.lr, args)", True),
        ("print(args.lr, args.warmup)", False),
        ("print(args.lr, getattr(args, 'warmup'))", False),
        ("print(vars(args))", False),
        ("Trainer(args)", False),
        ("json.dump(args.__dict__, f)", False),
        ("run(**vars(args))", False),
        ("config = {'args': args}", False),
        ("x = lambda: args", False),
    ],
)
def test_an_option_that_no_line_reads(check, code, is_unread):
    found = check(code=PARSER + code, options={"lr": 0.1, "warmup": 5}, argv=("--lr", "0.1", "--warmup", "5"))
    assert found == ([("likely", "--warmup was set to 5, but no loaded source file reads it.")] if is_unread else [])
    assert check(code=PARSER + code, options={"lr": 0.1, "warmup": 5}, argv=("--lr", "0.1")) == []


LOADED = "import yaml\ncfg = yaml.safe_load(open('train.yaml'))\n"


@pytest.mark.parametrize(
    ("code", "unread"),
    [
        ("print(cfg['lr'], cfg['model']['width'])", ["model.warmup", "sched"]),
        ("print(cfg.get('lr'), cfg['model'].get('width'), len(cfg['sched']))", ["model.warmup"]),
        ("def build(c):\n    return c['model']['width']\nbuild(cfg)", ["lr", "model.warmup", "sched"]),
        ("def build(c):\n    return Model(**c)\nbuild(cfg)", []),
        ("Model(**cfg['model'])\nprint(cfg['lr'])", ["sched"]),
        ("def load():\n    return yaml.safe_load(f)\nhp = load()\nModel(**hp)", []),
        ("def load():\n    return cfg\nModel(**load())", []),
        ("def load():\n    return cfg\nhp = load()\nprint(hp['lr'], hp['model']['width'])", ["model.warmup", "sched"]),
        ("self.all = cfg\nprint(self.all['lr'])\nrun(self.all)", []),
        ("m = cfg['model']\nprint(m['width'], cfg['lr'], cfg['sched']['gamma'])", []),
        ("for name in cfg:\n    print(name)", []),
        ("print(cfg['lr'], 'warmup', 'width')", ["model", "sched"]),
        ("Trainer(cfg)", []),
        ("Config(**yaml.safe_load(open('other.yaml')))", []),
        ("hp = AttrDict(cfg)", []),
        ("print(cfg['lr'], [cfg[k] for k in keys])", []),
    ],
)
def test_keys_of_a_configuration_file_that_no_line_reads(check, code, unread):
    yaml = "lr: 0.1\nmodel: {width: 8, warmup: 5}\nsched: {gamma: 0.5}\n"
    found = check(yaml, code=LOADED + code)
    assert found == [("likely", f"{name} is set in train.yaml, but no loaded source file reads it.") for name in unread]
    assert check(yaml, code=code.replace("cfg", "args")) == []
    assert check("base: &base {a: 1}\nlr: 0.1\nmodel: *base\n", code=LOADED + "print(cfg['lr'], cfg['model'])") == []


def test_a_value_far_from_those_of_earlier_runs(check, tmp_path):
    folder = tmp_path / "notes" / "runs" / "2025" / "01" / "01"
    folder.mkdir(parents=True)
    for number in range(6):
        name = f"20250101-00000{number}-aaaa"
        front = f"id: {name}\nexperiment: digits\nparams: {{lr: 0.0{number + 1}, seed: {number}, batch_size: 64}}"
        (folder / f"{name}.md").write_text(f"---\n{front}\n---\n")
    options = {"lr": 10.0, "seed": 90000, "batch_size": 128}
    assert check(options=options, experiment="digits") == [
        ("note", "lr is 10; 6 earlier runs of the experiment used 0.01 to 0.06 (median 0.035).")
    ]
    assert check(options={**options, "lr": 0.5}, experiment="digits") == []
    assert check(options=options, experiment="another") == []
    for value, text in (("1e-3", "1e-3"), (False, "False")):
        assert check(options={"lr": value}, experiment="digits") == [
            ("note", f"lr is {text}, which is no number; 6 earlier runs of the experiment used 0.01 to 0.06.")
        ]


SCHEMA = {"type": "object", "properties": {"lr": {"type": "number"}}, "additionalProperties": False}
DATACLASS = """
from __future__ import annotations
from dataclasses import dataclass, field
from typing import Literal, Optional
@dataclass
class Optim:
    lr: float
    betas: tuple[float, float] = (0.9, 0.999)
@dataclass
class Base:
    seed: int = 0
@dataclass
class Train(Base):
    optim: Optim = field(default_factory=Optim)
    mode: Literal["fast", "slow"] = "fast"
    resume: Optional[str] = None
    extra: Unknown = None
"""


def test_a_json_schema(check, tmp_path):
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    found = check("lr: big\nmomentun: 0.9\n", schema="schema.json", argv=("train.yaml",))
    assert [row[0] for row in found] == ["schema", "schema"]
    assert "'momentun' was unexpected" in found[0][1] and "lr in train.yaml: 'big' is not of type" in found[1][1]
    assert check("lr: 0.1\n", schema="schema.json", argv=("train.yaml",)) == []
    assert "no configuration" in check(schema="schema.json")[0][1]
    assert "could not be applied" in check("lr: 0.1", schema="missing.json")[0][1]
    (tmp_path / "schema.json").write_text('{"$ref": "https://example.org/s.json"}')
    assert "could not be applied" in check("lr: 0.1\n", schema="schema.json")[0][1]
    (tmp_path / "schema.json").write_text('{"type": 5}')
    assert "could not be applied" in check("lr: 0.1\n", schema="schema.json")[0][1]


def test_a_dataclass_is_read_without_running_it(check):
    good = "optim: {lr: 0.1}\nmode: slow\nextra: [1]\nresume: null\n"
    assert check(good, code=DATACLASS + "raise SystemExit", schema="train:Train") == []
    wrong = "optim: {lr: '0.1', betas: [1, 2]}\nmode: medium\nsteps: 3\nseed: 1.5\n"
    text = "\n".join(row[1] for row in check(wrong, code=DATACLASS, schema="train:Train"))
    for part in ("'steps' was unexpected", "optim.lr in train.yaml", "mode in train.yaml", "seed in train.yaml"):
        assert part in text
    assert "no module" in check(good, code=DATACLASS, schema="os:Train")[0][1]


def test_a_real_run_tells_it_in_entry_and_on_the_terminal(book):
    program = (
        "import argparse, yaml\np = argparse.ArgumentParser()\np.add_argument('--config')\n"
        "p.add_argument('--lr', type=float)\np.add_argument('--warmup', type=int, default=1)\nargs = p.parse_args()\n"
        "cfg = yaml.safe_load(open(args.config))\nprint('lr', args.lr)\n"
    )
    (book.folder / "train.py").write_text(program)
    (book.folder / "train.yaml").write_text("lr: 1e-4\nlr: 5e-4\nmode: fast\nwd: 1e-4\n")
    (book.folder / "schema.json").write_text(json.dumps(SCHEMA))
    (book.folder / "labbook.toml").write_text('config_schema = "schema.json"\n')
    options = ("--config", "train.yaml", "--lr", "1", "--lr", "2", "--warmup", "7")
    done = book.record(sys.executable, "train.py", *options)
    assert done.returncode == 0 and done.stdout == "lr 2.0\n"
    entry = book.entry()
    for part in (
        "- schema: lr in train.yaml: '5e-4' is not of type 'number'",
        'certain: wd (train.yaml:4) is the text "1e-4"',
        "certain: lr (train.yaml:2) is set twice",
        "certain: lr is on the command line with 1, 2",
        "likely: --warmup was set to 7",
    ):
        assert part in entry.replace("\\", ""), part
    assert "Configuration: train.yaml: Additional properties" in done.stderr
