"""Redactor of a run, rules of a notebook, and the scan of what is to be committed."""

import json
from pathlib import Path

import pytest

from labbook.errors import NotebookError
from labbook.probe.redaction.rules import rules_data
from labbook.store.commit.last_look import mask_secrets
from labbook.store.recorder_redaction import Hit, example_text, load_rules, make_redactor, scan_bytes
from labbook.store.text import escape

RULES = """
allow = ["hunter2"]
names = ["house_code"]
[[rules]]
id = "intranet_token"
keywords = ["itk-"]
pattern = 'itk-[0-9a-f]{32}'
yes = ["itk-{hex:32}"]
no = ["itk-short"]
"""


@pytest.fixture
def rules(tmp_path):
    def write(text):
        (tmp_path / "rules.toml").write_text(text, encoding="utf-8")
        return tmp_path / "rules.toml"

    return write


def test_a_run_knows_its_environment_and_its_command_line():
    environ = {"HOME": "/home/anna", "USER": "anna", "SOME_API_KEY": "Zq81xxAb"}
    made = make_redactor(environ, ["train.py", "--password", "Xo73zzCd"])
    assert made.text("Zq81xxAb /home/anna/x /data/anna Xo73zzCd") == (
        "[REDACTED:known] ~/x /data/[USER] [REDACTED:known]"
    )


def test_own_rules(rules):
    made = make_redactor({}, [], rules(RULES))
    text = example_text("itk-{hex:32}") + " house_code=Zq81xxAb password=hunter2"
    assert made.text(text) == "[REDACTED:intranet_token] house_code=[REDACTED:secret] password=hunter2"
    assert made.allowed == ("hunter2",)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("rules = 3", "not a list"),
        ("x = 1", "'x'"),
        ("allow = 'a'", "allow"),
        ("names = [1]", "names"),
        ("[[rules]]\nid = 'a'", "no pattern"),
        ("[[rules]]\nid = 'A B'\npattern = 'x'", "lower-case"),
        ("[[rules]]\nid = 'a'\npattern = 'x'", "keywords"),
        ("[[rules]]\nid = 'a'\npattern = 'x'\nkeywords = ['x']", "examples"),
        ("[[rules]]\nid = 'a'\npattern = '('\nkeywords = ['x']\nyes = ['x']\nrun = false", "'a'"),
        ("[[rules]]\nid = 'a'\npattern = 'x'\nkeywords = ['x']\nyes = ['x']\nrun = false\nedge = 'odd'", "edge"),
        ("[[rules]]\nid = 'a'\npattern = 'xy'\nkeywords = ['x']\nyes = ['x']\nrun = false", "does not mask"),
        ("[[rules]]\nid = 'a'\npattern = 'xy'\nkeywords = ['x']\nyes = ['xy']", "run = false"),
        ("[[rules]]\nid = 'a'\npattern = 'xy'\nkeywords = ['q']\nyes = ['xy']\nrun = false", "keywords"),
        (
            "[[rules]]\nid = 'a'\npattern = 'xy'\nkeywords = ['x']\nyes = ['xy']\nno = ['axy xy']\nrun = false",
            "must stay",
        ),
        ("[broken", "TOML"),
    ],
)
def test_broken_rules_are_rejected_by_name(rules, text, seen):
    path = rules(text)
    with pytest.raises(NotebookError) as error:
        load_rules(path)
    assert str(path) in error.value.message and seen in error.value.message and error.value.hint


def test_rules_that_cannot_be_read(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name in ("missing", "binary"):
        with pytest.raises(NotebookError):
            load_rules(tmp_path / name)


def test_the_scan_names_rule_and_line_of_every_format():
    missed = []
    total = 0
    for rule in rules_data()["formats"]:
        for number, example in enumerate(rule["yes"]):
            total += 1
            page = "# title\n\ntext\n\n```\n" + example_text(example, number) + "\n```\n"
            hits = scan_bytes(page.encode())
            if not hits or any(hit.line != 6 for hit in hits):
                missed.append(example)
    assert not missed and total > 100


def test_redacted_and_escaped_text_passes_the_scan():
    data = Path(__file__).parents[1] / "data"
    harmless = (data / "harmless_ml_text.txt").read_text(encoding="utf-8").splitlines()
    secret = (data / "secrets_in_context.txt").read_text(encoding="utf-8").splitlines()
    made = make_redactor({"HOME": "/home/anna"}, [])
    for line in harmless + [made.text(line.replace("@S@", "Zq81xxAbYp92yyCd")) for line in secret]:
        cells = f"| {escape.table_cell(line)} | {escape.code_span(line)} |"
        page = f"# {escape.inline(line)}\n\n{cells}\n\n{escape.fence(line)}"
        assert scan_bytes(page.encode()) == [], line
        for form in (json.dumps({"text": line}), f"+{line}\n-{line}", "command: " + json.dumps(line)):
            assert scan_bytes(form.encode()) == [], line


def test_marks_of_the_redaction_stay_readable():
    text = "password=[REDACTED:password] in /home/[USER]/x"
    assert escape.inline(text) == escape.table_cell(text) == text
    assert escape.inline("[REDACTED:x](javascript:alert)") == "&#91;REDACTED:x&#93;(javascript:alert)"


def test_the_scan_accepts_any_bytes():
    data = b"\x00\xff\x89PNG\r\n password=Zq81xxAb\n" + example_text("ghp_{alnum:36}").encode()
    assert scan_bytes(data) == [Hit("password", 2), Hit("github_token", 3)]
    assert scan_bytes(b"") == [] == scan_bytes("损失 0.5\n/home/anna/x [REDACTED:known]\n".encode())


def test_binary_content_holds_no_secret_by_chance_but_the_text_in_it_is_read():
    chance = b"\x00\x91a://\xf3\x02u\x88:\xe1pw\x90\x17@\xc8h\x00"
    real = b"\x00\x91" + b"postgres://anna:Zq81xxAb@db.example" + b"\x90\x17\n"
    assert scan_bytes(chance) == []
    assert [hit.rule for hit in scan_bytes(chance + b"\n" + real)] == ["url_userinfo"]
    masked = mask_secrets("a.bin", chance + b"\n" + real, make_redactor({}, []))
    assert masked.startswith(chance + b"\n\x00\x91postgres://") and b"Zq81xxAb" not in masked
    assert masked.endswith(b"\x90\x17\n")


def test_the_scan_with_the_redactor_of_the_run_knows_its_values():
    made = make_redactor({"SOME_API_KEY": "Zq81xxAb"}, [])
    assert scan_bytes(b"a\nZq81xxAb", made) == [Hit("known", 2)]
    assert scan_bytes(b"a\nZq81xxAb") == []
    assert made.counts == {}


def test_examples_are_filled_the_same_each_time():
    example = "a-{hex:8}-{uuid}-{digit:3}{{x}}"
    assert example_text(example, 1) == example_text(example, 1) != example_text(example, 2)
    assert example_text(example).endswith("{{x}}")
