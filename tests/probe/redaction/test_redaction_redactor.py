"""The layers: formats, names, paths, data, command lines; secrets go, harmless text stays byte for byte."""

import json
import random
import shlex
import string
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from order_of_tests import in_one_test

import labbook.probe
from labbook.probe.redaction.environment_variables import ENVIRONMENT_ALLOWED, allowed_environment
from labbook.probe.redaction.known_secrets import known_values
from labbook.probe.redaction.redactor import Redactor
from labbook.probe.redaction.rules import rules_data
from labbook.probe.redaction.structures import redact_argv
from labbook.store.recorder_redaction import check_rule, example_text

DATA = Path(__file__).parents[2] / "data"
IN_CONTEXT = (DATA / "secrets_in_context.txt").read_text(encoding="utf-8").splitlines()
HARMLESS = (DATA / "harmless_ml_text.txt").read_text(encoding="utf-8").splitlines()


def redactor(**options):
    return Redactor(**{"home": "/home/wei", "user": "wei", **options})


RULES = rules_data()["formats"]


@in_one_test("rule", RULES, ids=lambda rule: f"{rule['id']}-{rule['keywords'][0]}")
def test_every_rule_holds_its_examples(rule):
    assert check_rule(rule) is None
    assert rule["yes"] and rule["no"], "a rule has examples of both kinds"


@in_one_test("rule", RULES, ids=lambda rule: f"{rule['id']}-{rule['keywords'][0]}")
def test_all_formats_are_masked_wherever_they_stand(rule):
    for seed in range(5):
        for example in rule["yes"]:
            text = example_text(example, seed)
            for place in (
                "{}",
                '"{}"',
                "x = '{}'",
                "({})",
                "INFO {} done",
                "\\n{}\\n",
                "\x1b[32m{}\x1b[0m",
                "值：{}。",
            ):
                out = redactor().text(place.format(text))
                assert "[REDACTED:" in out, (place, text)
    for example in rule["no"]:
        text = example_text(example)
        assert redactor().text(text) == text


def secrets_of_all_shapes(source):
    letters = string.ascii_letters + string.digits
    yield "".join(source.choices(letters, k=32))
    yield "".join(source.choices("0123456789abcdef", k=40))
    yield "".join(source.choices(string.ascii_letters, k=6)) + "7x9"
    yield "Tr0ub4dor" + source.choice("!#%+") + "".join(source.choices(string.ascii_lowercase, k=4))


def test_secrets_known_by_context_only():
    source = random.Random(11)
    missed = []
    total = 0
    for line in IN_CONTEXT:
        for secret in secrets_of_all_shapes(source):
            total += 1
            out = redactor().text(line.replace("@S@", secret))
            if secret[:6] in out or secret[-6:] in out:
                missed.append(line)
    assert len(missed) <= 0.03 * total, missed


def test_long_secrets_known_by_context_are_all_found():
    for line in IN_CONTEXT:
        secret = example_text("{alnum:32}", len(line))
        assert secret not in redactor().text(line.replace("@S@", secret)), line


def test_harmless_machine_learning_text_stays():
    changed = [line for line in HARMLESS if redactor().text(line) != line]
    assert not changed


def test_redacting_twice_changes_nothing():
    for line in IN_CONTEXT:
        once = redactor().text(line.replace("@S@", "Abcdef12345678901x"))
        assert redactor().text(once) == once


@in_one_test("rule", RULES, ids=lambda rule: f"{rule['id']}-{rule['keywords'][0]}")
def test_a_masked_command_stays_when_it_is_quoted_again(rule):
    """A command with a masked argument is quoted for the shell, and its line again for YAML or JSON."""
    for example in rule["yes"]:
        once = json.dumps(shlex.join(["python", "train.py", redactor().text(example_text(example))]))
        assert redactor().text(once) == once


PATHS = [
    ("/home/wei", "~"),
    ('File "/home/wei/p/train.py", line 3', 'File "~/p/train.py", line 3'),
    ("/home/wei: x, /home/wei. End", "~: x, ~. End"),
    ("/home/weiwei/x /home/wei.bak/y", "/home/[USER]/x /home/[USER]/y"),
    ("-I/home/wei/include -v/home/anna:/x -v /home/wei:/w", "-I~/include -v/home/[USER]:/x -v ~:/w"),
    ("PATH=/usr/bin:/home/wei/bin:/home/anna/bin", "PATH=/usr/bin:~/bin:/home/[USER]/bin"),
    ("/Users/anna/Library /Users/Shared/x", "/Users/[USER]/Library /Users/Shared/x"),
    ("file:///home/anna/x file:///home/wei/y", "file:///home/[USER]/x file://~/y"),
    ("/data/home/anna/x /mnt/nfs/home/anna/y", "/data/home/[USER]/x /mnt/nfs/home/[USER]/y"),
    ("/cluster/users/anna/z /nfs/homes/anna/x", "/cluster/users/[USER]/z /nfs/homes/[USER]/x"),
    (r"C:\Users\anna\x C:\\Users\\anna\\y", r"C:\Users\[USER]\x C:\\Users\\[USER]\\y"),
    (r"C:\Users\Anna Li\AppData C:/Users/anna/x", r"C:\Users\[USER]\AppData C:/Users/[USER]/x"),
    ("%2Fhome%2Fanna%2Fx %2Fhome%2Fwei%2Fy", "%2Fhome%2F[USER]%2Fx ~%2Fy"),
    (r'{"path":"\/home\/anna\/x","p":"\/home\/wei\/y"}', r'{"path":"\/home\/[USER]\/x","p":"~\/y"}'),
    ("/data/wei/ckpt /mnt/nas/wei/a.bin ~wei/x", "/data/[USER]/ckpt /mnt/nas/[USER]/a.bin ~[USER]/x"),
    ("wei@gpu-07:~$ scp a wei@host:/d", "[USER]@gpu-07:~$ scp a [USER]@host:/d"),
    (r"\n/home/anna/x\t/home/wei/y", r"\n/home/[USER]/x\t~/y"),
    ("-home-anna-project", "-home-[USER]-project"),
    ("/home/张三/数据", "/home/[USER]/数据"),
    ("\x1b[32m/home/\x1b[1manna/x\x1b[0m", "\x1b[32m/home/\x1b[1m[USER]/x\x1b[0m"),
]


@pytest.mark.parametrize(("text", "expected"), PATHS)
def test_personal_paths(text, expected):
    assert redactor().text(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "https://example.org/home/index.html",
        "https://github.com/wei/repo",
        "/home /home/ /homework /root/x /rooted",
        "/home/${USER}/x /home/<user>/x /home/[USER]/x /home/*/x ~/x",
        "wheel weight weird /data/weights/wei.pt",
        "multi-home-page",
    ],
)
def test_paths_of_nobody_stay(text):
    assert redactor().text(text) == text


def test_the_home_of_root():
    assert Redactor(home="/root", user="root").text("/root/x /rootfs -I/root/y /mnt/root/z root@h") == (
        "~/x /rootfs -I~/y /mnt/root/z root@h"
    )


def test_data_keeps_its_form_and_loses_its_secrets():
    class Strange:
        def __repr__(self):
            raise RuntimeError("no")

    loop = {"a": 1}
    loop["loop"] = loop
    plain = redactor(known=["k3yOfThisRun"]).data(
        {
            "lr": 0.1,
            "epochs": 3,
            "flag": True,
            "none": None,
            "nan": float("inf"),
            "password": "hunter2",
            "api_key": 12345678,
            "max_tokens": 512,
            "tokens": ["a", "b"],
            "pad_token": "<pad>",
            "credentials": {"user": "anna", "data": ["Xy12345678"]},
            "path": "/home/wei/x",
            "shape": (1, 2),
            "raw": b"known k3yOfThisRun",
            "set": {"x"},
            "strange": Strange(),
            "long": range(10**6),
            "argv": ["train.py", "--token", "abcdefgh1234", "--lr", "0.1"],
            "pairs": [{"name": "DB_PASSWORD", "value": "hunter2"}, {"name": "LR", "value": "0.1"}],
            "k3yOfThisRun": 1,
            ("a", 1): 2,
            "token": None,
            "secret": "${SECRET}",
            "nested": loop,
        }
    )
    text = json.dumps(plain, allow_nan=True)
    for secret in ("hunter2", "12345678", "abcdefgh1234", "k3yOfThisRun", "/home/wei"):
        assert secret not in text
    assert plain["lr"] == 0.1 and plain["epochs"] == 3 and plain["flag"] is True and plain["none"] is None
    assert plain["max_tokens"] == 512 and plain["tokens"] == ["a", "b"] and plain["pad_token"] == "<pad>"
    assert plain["shape"] == [1, 2] and plain["set"] == ["x"] and plain["path"] == "~/x"
    assert plain["password"] == "[REDACTED:password]" and plain["token"] is None and plain["secret"] == "${SECRET}"
    assert plain["argv"][3:] == ["--lr", "0.1"] and plain["pairs"][1] == {"name": "LR", "value": "0.1"}
    assert plain["pairs"][0]["name"] == "DB_PASSWORD" and plain["strange"].startswith("<Strange")


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner),
        max_leaves=12,
    )
)
def test_data_takes_anything(value):
    json.dumps(redactor().data(value))


@given(
    st.text()
    | st.lists(st.sampled_from([line.replace("@S@", "Zq81'\"\\\x1b[1m@:/") for line in IN_CONTEXT])).map("".join)
)
def test_any_text_can_be_redacted(text):
    made = redactor(known=["k3yOfThisRun"])
    once = made.text(text)
    assert isinstance(once, str) and once.count("\n") == text.count("\n")


def test_harmless_data_comes_back_the_same():
    value = {"a": [1, 2.5, None, {"b": "text", "key": "val_loss"}], "metric_key": "f1", "name": "x"}
    assert redactor().data(value) == value


def test_argv():
    made = redactor()
    words = ["train.py", "--lr", "0.1", "--api-key", "two words", "--password=a b", "-v", "wandb.api_key=Abcdef123456"]
    assert redact_argv(words, made) == [
        "train.py", "--lr", "0.1", "--api-key", "[REDACTED:option]", "--password=[REDACTED:option]", "-v",
        "wandb.api_key=[REDACTED:option]",
    ]  # fmt: skip
    assert redact_argv(["wandb", "login", example_text("{hex:40}")], made)[2] == "[REDACTED:wandb_key]"
    harmless = [
        "python",
        "-m",
        "x",
        "--max-tokens",
        "512",
        "--pad-token",
        "<pad>",
        "--token",
        "--flag",
        "a\nb",
        "",
        "\x1f",
    ]
    assert redact_argv(harmless, made) == harmless


@pytest.mark.parametrize(
    "line",
    [
        "curl -u wei:Ab3xyz99 https://h/x",
        "curl -s --user wei:Ab3xyz99 https://h/x",
        "docker login -u wei -p Ab3xyz99 registry",
        "sshpass -p Ab3xyz99 ssh h",
        "mysql -u root -pAb3xyz99 db",
    ],
)
def test_a_command_line_is_masked_as_its_line_and_its_values_become_known(line):
    words = line.split()
    shown = redact_argv(words, redactor())
    assert "Ab3xyz99" not in " ".join(shown) and len(shown) == len(words)
    assert redact_argv(shown, redactor()) == shown
    assert sum(old != new for old, new in zip(words, shown, strict=True)) == 1
    made = redactor(known=known_values({}, words))
    assert made.text("error: Ab3xyz99 was refused") == "error: [REDACTED:known] was refused"


@pytest.mark.parametrize("value", ["QUJDREVGMTIz==", "Ab3=xyz99"])
@pytest.mark.parametrize("option", ["--password", "--api-key"])
def test_a_value_with_an_equals_sign_belongs_to_its_option(option, value):
    assert redact_argv(["x.py", option, value, "--lr=0.1", "model.depth=3"], redactor()) == [
        "x.py", option, "[REDACTED:option]", "--lr=0.1", "model.depth=3",
    ]  # fmt: skip


def test_counts_of_rules_are_no_passwords():
    counts = {"lines": 9, "redactions": {"password": 1200, "secret": 4}}
    assert redactor().data(counts) == counts
    assert redactor().data({"redactions": {"password": "Zq81xxAb"}}) != {"redactions": {"password": "Zq81xxAb"}}


def test_a_header_among_the_words_hides_no_other_word():
    words = ["curl", "-H", "Authorization: Bearer abcdefghijkl12345", "--data", "a\nb", "https://h/x"]
    assert redact_argv(words, redactor()) == [*words[:2], "Authorization: [REDACTED:header]", *words[3:]]


@pytest.mark.parametrize("label", ["name", "key", "what"])
@pytest.mark.parametrize("value", ["value", "before", "now"])
def test_a_row_says_its_name_in_a_value(label, value):
    row = {label: "--api-key", value: "Zq81xxAb", "kind": "argument"}
    assert redactor().data(row) == {**row, value: "[REDACTED:secret]"}


def test_environment_is_an_allowlist():
    environ = {
        "CUDA_VISIBLE_DEVICES": "0,1",
        "NCCL_DEBUG": "INFO",
        "RANK": "0",
        "PYTHONHASHSEED": "0",
        "SLURM_JOB_ID": "12",
        "SLURM_JOB_USER": "wei",
        "HF_TOKEN": "x",
        "AWS_SECRET_ACCESS_KEY": "y",
        "FLAGS_dir": "/home/wei/x",
        "MINE": "1",
        "USER": "wei",
    }
    chosen = redactor().data(allowed_environment(environ, ["MINE"]))
    assert sorted(chosen) == [
        "CUDA_VISIBLE_DEVICES",
        "FLAGS_dir",
        "MINE",
        "NCCL_DEBUG",
        "PYTHONHASHSEED",
        "RANK",
        "SLURM_JOB_ID",
    ]
    assert chosen["FLAGS_dir"] == "~/x"
    forbidden = [
        name for name in ENVIRONMENT_ALLOWED if any(word in name for word in ("_TOKEN", "SECRET", "PASS", "USER"))
    ]
    assert not forbidden


def test_names_and_texts_of_the_notebook():
    rules = {"names": ["house_code"], "allow": ["hunter2"], "rules": [
        {"id": "itk", "keywords": ["itk-"], "pattern": "itk-[0-9]{4}", "run": False}
    ]}  # fmt: skip
    made = redactor(rules=rules)
    assert made.text("house_code=Zx81qq itk-1234 password=hunter2 password=hunter3") == (
        "house_code=[REDACTED:secret] [REDACTED:itk] password=hunter2 password=[REDACTED:password]"
    )
    assert made.allowed == ("hunter2",)


def test_counts_by_rule():
    made = redactor(known=["k3yOfThisRun"])
    made.text("k3yOfThisRun password=abcdef /home/wei/x\nk3yOfThisRun")
    assert made.counts == {"known": 2, "password": 1, "home": 1}


def test_find_tells_lines_and_counts_nothing():
    made = redactor()
    text = "a\npassword=abcdef\n\n" + example_text("ghp_{alnum:36}") + " /home/anna/x"
    assert made.find(text) == [(2, "password"), (4, "github_token"), (4, "user")]
    assert made.counts == {}


def test_needs_scan_is_never_wrong_when_it_says_no():
    made = redactor(known=["k3yOfThisRun"])
    for line in [line.replace("@S@", "Abcdef1234567890") for line in IN_CONTEXT] + [text for text, _ in PATHS]:
        assert made.needs_scan(line) or made.text(line) == line
    assert not made.needs_scan("epoch 1 loss=0.25 lr=1e-3")


PRIVATE = """
import sys
from importlib.machinery import ModuleSpec
import _frozen_importlib_external as external
root = sys.argv[1]
loader = external.SourceFileLoader("_labbook_probe", root + "/__init__.py")
spec = ModuleSpec("_labbook_probe", loader, origin=root + "/__init__.py", is_package=True)
spec.submodule_search_locations = [root]
package = type(sys)("_labbook_probe")
package.__path__, package.__spec__ = [root], spec
sys.modules["_labbook_probe"] = package
before = set(sys.modules)
from _labbook_probe.redaction.known_secrets import known_values
from _labbook_probe.redaction.redactor import Redactor
known = known_values({"PATH": "/usr/bin", "HOME": "/home/wei", "API_KEY": "k3yOfThisRun"}, ["x.py"])
made = Redactor(known, home="/home/wei", user="wei")
assert not made.needs_scan("epoch 1 loss 0.5") and made.needs_scan("see k3yOfThisRun")
print(sorted({"re", "json"} & (set(sys.modules) - before)))
print(made.text("password=hunter2 k3yOfThisRun"))
print([name for name in sys.modules if name.startswith("labbook")])
"""


def test_the_first_look_imports_no_regular_expressions_in_the_private_package():
    root = str(Path(labbook.probe.__file__).parent)
    done = subprocess.run([sys.executable, "-S", "-c", PRIVATE, root], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "password=[REDACTED:password] [REDACTED:known]", "[]"]


def test_a_text_that_was_clean_is_masked_once_it_is_known_to_be_secret():
    found = redactor()
    assert [found.text("a quiet horse") for _ in range(2)] == ["a quiet horse"] * 2
    found.learn(["a quiet horse"])
    assert "horse" not in found.text("a quiet horse")
