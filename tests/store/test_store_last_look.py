"""The last look before a commit: what it finds, what it masks, and that it refuses nothing that was masked before."""

from __future__ import annotations

import dataclasses
import json
import shlex
import tempfile
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st
from order_of_tests import in_one_test

from labbook.compare.run_changes import compare_runs, mask_changes
from labbook.model.run import Arguments, CaughtException, ConfigFile, Console, Frame, Process, Run
from labbook.model.run_json import line_by_line, run_to_json
from labbook.probe.redaction.redactor import Redactor
from labbook.probe.redaction.rules import rules_data
from labbook.probe.redaction.structures import redact_argv
from labbook.record.finalize import commit_message
from labbook.report.entry.entry_page import entry_markdown
from labbook.report.entry.title import run_title
from labbook.store.commit.last_look import find_secrets, mask_secrets, secret_error, secrets_in
from labbook.store.config import Config
from labbook.store.git.fast_import import FileChange
from labbook.store.notebook import Notebook
from labbook.store.paths import NotebookPaths
from labbook.store.recorder_redaction import example_text

DATA = Path(__file__).parents[1] / "data"
SECRET = "Zq81xxAbYp92yyCd"
IN_CONTEXT = [
    line.replace("@S@", SECRET) for line in (DATA / "secrets_in_context.txt").read_text(encoding="utf-8").splitlines()
]
FORMATS = [example_text(example) for rule in rules_data()["formats"] for example in rule["yes"]]
HARMLESS = (DATA / "harmless_ml_text.txt").read_text(encoding="utf-8").splitlines()
CUT_KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAu1SU1LfVLPHCozMxH2Mo"
NAMES = ["password", "--api-key", "token", "lr", "kind: Secret", "auth", "k_proj", "wandb_key", "session_id", "before"]


def plain_redactor():
    return Redactor(home="", user="")


def run_json(**facts):
    return line_by_line(facts).encode()


@in_one_test(
    "facts",
    [
        {"changes": [{"kind": "argument", "what": "api_key", "before": "[REDACTED:option]", "now": ""}]},
        {"changes": [{"kind": "argument", "what": "api_key", "before": "", "now": "", "detail": "x"}]},
        {"text": plain_redactor().text("docker login -u lab -p Zq81xxAb\nepoch 1")},
        {"text": plain_redactor().text("machine h login a password Zq81xxAb\nepoch 1")},
        {"console": {"redactions": {"password": 1200, "secret": 123456}}},
        {"text": plain_redactor().text(f"{CUT_KEY}\n{CUT_KEY}\n")},
        {"captured": {"kind: Secret": "[REDACTED:secret]", "now": ["kind: Secret", "before"]}},
    ],
    ids=["masked change", "empty change", "docker", "netrc", "counts", "cut keys", "kind"],
)
def test_structure_and_marks_are_no_secrets(facts):
    data = run_json(**facts)
    assert find_secrets("run.json", data, plain_redactor()) == []
    assert json.loads(mask_secrets("run.json", data, plain_redactor())) == facts


@in_one_test("text", IN_CONTEXT + FORMATS)
def test_unmasked_secrets_are_found_and_masked(text):
    redactor = plain_redactor()
    page = f"---\ntitle: x\n---\n\n{text}\n".encode()
    for name, data in (("a.md", page), ("changes.patch", page), ("run.json", run_json(id="x", text=text))):
        assert find_secrets(name, data, redactor), (name, text)
        masked = mask_secrets(name, data, redactor)
        assert find_secrets(name, masked, redactor) == [] and SECRET.encode() not in masked, (name, text)


def test_a_finding_names_file_line_and_kind_and_never_the_value():
    changes = [
        FileChange(b"notes/a.md", b"one\npassword=Zq81xxAb\n"),
        FileChange(b"notes/a/run.json", run_json(id="x", parameters={"api_key": "Zq81xxAb"})),
        FileChange(b"notes/gone.md", None),
    ]
    sentence = str(secret_error(secrets_in(changes, "subject\n\ntoken: ghp_" + "a1" * 18, plain_redactor())))
    assert sentence == (
        "it may contain a secret in notes/a.md, line 2 (password); notes/a/run.json, line 3 (secret); "
        "the commit message, line 3 (github_token)"
    )


def test_masking_changes_only_the_secrets():
    data = b"&#42; \xff password&#61;Zq81&#120;xAb &amp; rest\r\nlr &lt; 0.1"
    assert mask_secrets("a.md", data, plain_redactor()) == (
        b"&#42; \xff password&#61;[REDACTED:password] &amp; rest\r\nlr &lt; 0.1"
    )


@in_one_test("data", [b"", b"[1, 2]", b"{broken password=Zq81xxAb", b"\xff\xfe", b'{"a": ' * 10])
def test_a_file_that_is_no_json_object_is_read_as_text(data):
    assert bool(find_secrets("run.json", data, plain_redactor())) == (b"Zq81xxAb" in data)


def _masked_run(texts, names, values, seed):
    """A run whose every text went through the redactor, as labbook's capture does it."""
    redactor = plain_redactor()
    masked = [redactor.text(text) for text in texts]
    data = dict(zip(names, values, strict=True))
    argv = redact_argv(["python", "train.py", *(word for pair in data.items() for word in pair)], redactor)
    run = Run(
        id=f"20261121-1530{seed:02d}-k3f9",
        status="failed",
        argv=tuple(argv),
        cwd="/work",
        started=1795275012.0,
        ended=1795275015.0,
        exit_code=1,
        script="train.py",
        tags=tuple(masked[:2]),
        notes=tuple(masked[:2]),
        console=Console("\n".join(masked) + "\n", lines=len(masked), redactions={"password": 1200}),
        arguments=(Arguments("argparse", "args", redactor.data(data)),),
        configs=(ConfigFile("config.yaml", "yaml", redactor.text("\n".join(texts))),),
        processes=(Process(1, 0, tuple(argv), "main"),),
        exceptions=(
            CaughtException(
                "main", "ValueError", "builtins", masked[0], (Frame("train.py", 3, "f", masked[-1], user=True),)
            ),
        ),
        captured={
            "command": redactor.data({"argv": argv, "line": shlex.join(argv)}),
            "code": redactor.data({"commit": "1" * 40, "branch": texts[0], "subject": texts[-1]}),
        },
    )
    return dataclasses.replace(run, title=run_title(run))


TWICE = "zip -P Ab3xyz99 a.zip b"
texts = st.lists(st.sampled_from([*IN_CONTEXT, *FORMATS, *HARMLESS, CUT_KEY, f"a\n{CUT_KEY}"]), min_size=1, max_size=6)
values = st.lists(
    st.one_of(
        st.sampled_from([SECRET, "Xo73zzCd", "a b", "0.1", "none", "true", "before", "wei:Zq81xxAb", "12345678", ""]),
        st.sampled_from([*IN_CONTEXT, *FORMATS]),
        st.text(max_size=12).filter(lambda text: text.isprintable()),
    ),
    min_size=4,
    max_size=4,
)


@example(
    ["k_proj", "token", "before", "password"], ["a"], ["a"], [TWICE, SECRET, "b", TWICE], [TWICE, SECRET, "b", TWICE]
)
@example(["--api-key", "password", "token", "lr"], ["a"], ["a"], [SECRET] * 4, [f"--password={SECRET}", *[SECRET] * 3])
@example(["password", "--api-key", "token", "lr"], ["a"], ["a"], [SECRET] * 4, [SECRET, '00"', SECRET, SECRET])
@settings(max_examples=30)
@given(st.lists(st.sampled_from(NAMES), min_size=4, max_size=4, unique=True), texts, texts, values, values)
def test_an_entry_of_masked_texts_passes_the_scan(names, texts_before, texts_now, values_before, values_now):
    before = _masked_run(texts_before, names, values_before, 1)
    now = _masked_run(texts_now, names, values_now, 2)
    redactor = plain_redactor()
    changes = mask_changes(compare_runs(run_to_json(before), run_to_json(now)), redactor)
    now = dataclasses.replace(now, previous=before.id, changes=tuple(changes))
    with tempfile.TemporaryDirectory() as folder:
        page = entry_markdown(now, Notebook(NotebookPaths(Path(folder)), Config(language="en")))
    files = {"run.json": line_by_line(run_to_json(now)).encode(), "entry.md": page.encode("utf-8", "surrogateescape")}

    found = secrets_in(
        [FileChange(name.encode(), data) for name, data in files.items()],
        redactor.text(commit_message(now)),
        redactor,
    )

    assert found == [], [(each, files[each.place].decode().split("\n")[each.hit.line - 1]) for each in found]
