"""What a user types, commits and prints reaches neither journal nor entry, commit, index or site unmasked."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from labbook.store.commit.commit_queue import WITHHELD, enqueue, pending_commits, withheld_files
from labbook.store.commit.entry_commit import commit_files
from labbook.store.notebook_finder import find_notebook

TOKEN = "ghp_" + "Zq81xxAbYp92yyCdXo73zzEfRt64wwGhQs55"
KNOWN = "Vb82kkMnWq"
PASSWORD = "Hunter2xQz"
MESSAGE = "Lk93ppRtYx"


def all_bytes(*folders):
    """Every file below the folders, in one text."""
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return b"\n".join(os.fsencode(path) + b"\n" + path.read_bytes() for path in files)


def history(folder):
    """Everything that git holds: messages and contents of all commits."""
    objects = "git cat-file --batch-all-objects --batch-check='%(objectname)' | git cat-file --batch"
    return subprocess.run(objects, shell=True, cwd=folder, capture_output=True, check=True).stdout


def test_texts_of_the_user_are_masked_everywhere(project, git):
    script = project.folder / "curl"
    script.write_text("#!/bin/sh\nexit 0\n")
    script.chmod(0o755)
    git(project.folder, "add", "curl")
    git(project.folder, "commit", "-qm", "a command")
    environ = {**os.environ, "SOME_API_KEY": KNOWN}
    for user in (f"wei:{PASSWORD}", "li:Mj84ttBvXz"):
        project(
            "record", "--tag", f"by {TOKEN}", "--tag", KNOWN, "--", "./curl", "-u", user, "https://h/x", env=environ
        )
        (project.folder / "more.py").write_text(f"# {user[:2]}\n")
        git(project.folder, "add", "more.py")
        git(project.folder, "commit", "-qm", f"use password={MESSAGE} here")
    project.record("./curl", "https://h/x")

    run = project.run()
    assert run["commit"] and "use password=[REDACTED:password] here" in str(run["changes"])
    assert {"what": "-u", "before": "[REDACTED:known]"}.items() <= run["changes"][0].items()
    project("site", "build")
    # The user's own commits hold what they hold.
    ours = history(project.folder).replace(f"use password={MESSAGE} here".encode(), b"")
    everything = all_bytes(project.folder / "notes", project.folder / "site", project.folder / ".labbook") + ours
    for secret in (TOKEN, KNOWN, PASSWORD, "Mj84ttBvXz", MESSAGE):
        assert secret.encode() not in everything, secret


@pytest.fixture
def withheld(project):
    """A project whose first run is withheld, and the id of that run."""
    project.record(sys.executable, "train.py", "--lr", "0.125")
    run = project.run()
    book = find_notebook(project.folder, chosen=project.folder, environ={})
    folder = book.paths.attachments(run["id"])
    files = [run["entry"], *(path.relative_to(book.paths.root).as_posix() for path in folder.iterdir())]
    enqueue(book.paths, tuple(files), "m", 0.0, "it may contain a secret", queue=WITHHELD)
    return project, run["id"]


@pytest.mark.parametrize(
    ("name", "content"),
    [(".env", "# hub\nexport HUB_TOKEN='{}'\nLEVEL=info\n"), ("kaggle.json", '{{"username": "wei", "api_key": "{}"}}')],
)
def test_a_secret_of_a_file_that_the_program_read_is_masked_where_it_is_printed(project, name, content):
    (project.folder / name).write_text(content.format(KNOWN))
    (project.folder / "t.py").write_text(
        f"import re\ntext = open({name!r}).read()\nprint('level info, got', re.search('Vb82[A-Za-z]+', text)[0])\n"
    )
    project.record(sys.executable, "t.py")
    entry = (project.folder / project.run()["entry"]).read_text()
    assert project.run()["commit"] and "level info, got" in entry
    assert KNOWN.encode() not in all_bytes(project.folder / "notes") + history(project.folder)
    # Nor in the journal, which was written before the file was looked at.
    journal = all_bytes(project.folder / ".labbook")
    assert KNOWN.encode() not in journal and b"level info, got [REDACTED:known]" in journal


def test_a_withheld_entry_is_neither_quoted_nor_published(withheld, git):
    project, first = withheld
    project.record(sys.executable, "train.py", "--lr", "0.5")
    second = project.run()
    assert second["previous"] == "" and not second["changes"]

    built = project("site", "build")
    assert f"{first}.md: left out, it may contain a secret" in built.stdout + built.stderr
    names = [path.relative_to(project.folder / "site").as_posix() for path in (project.folder / "site").rglob("*")]
    assert not [name for name in names if first in name] and [name for name in names if second["id"] in name]
    assert first.encode() not in all_bytes(project.folder / "site")
    project("report")
    assert first.encode() not in all_bytes(project.folder / "notes" / "reports")


def test_the_message_of_a_commit_passes_the_same_look(project, git):
    book = find_notebook(project.folder, chosen=project.folder, environ={})
    note = book.paths.notes / "idea.md"
    note.write_text("warm up\n")
    before = git(project.folder, "for-each-ref")

    outcome = commit_files(book, [note], f"try\n\npassword={PASSWORD}\n")

    assert outcome.status == "withheld" and "the commit message, line 3 (password)" in outcome.reason
    assert PASSWORD not in outcome.reason and git(project.folder, "for-each-ref") == before
    assert project("commit", "-m", f"password={PASSWORD}", check=False).returncode == 3
    assert commit_files(book, [note], "try\n").status == "committed"


def test_queued_commits_are_scanned_again(project, git):
    from labbook.store.commit.entry_commit import commit_queued

    book = find_notebook(project.folder, chosen=project.folder, environ={})
    notes = [book.paths.notes / "first.md", book.paths.notes / "second.md"]
    for note in notes:
        note.write_text("warm up\n")
        enqueue(book.paths, (f"notes/{note.name}",), note.name, 0.0, "git was busy", only_new=True)
    notes[0].write_text(f"password={PASSWORD}\n")

    assert [outcome.status for outcome in commit_queued(book)] == ["withheld", "committed"]
    assert withheld_files(book.paths) == {"notes/first.md"} and not pending_commits(book.paths)
    assert [item.only_new for item in pending_commits(book.paths, queue=WITHHELD)] == [True]


def test_an_experiment_is_not_named_after_a_secret(project):
    done = project("new", f"sweep {TOKEN}", check=False)
    assert done.returncode == 2 and "may contain a secret (github_token)" in done.stderr and TOKEN not in done.stderr
    assert TOKEN.encode().lower() not in all_bytes(project.folder / "notes").lower()


@pytest.mark.parametrize("command", ["recover", "commit"])
def test_a_withheld_entry_can_be_released(project, git, command):
    """An entry that an earlier labbook refused: its journal says so, and a secret stands in it as it did then."""
    settings = project.folder / "labbook.toml"
    usual = settings.read_text()
    settings.write_text(re.sub(r"^commit = .*$", 'commit = "off"', usual, flags=re.MULTILINE))
    project.record(sys.executable, "train.py", "--lr", "0.125")
    run = project.run()
    page = project.folder / run["entry"]
    facts = page.with_suffix("") / "run.json"
    page.write_text(page.read_text() + f"\npassword={PASSWORD}\n")
    facts.write_text(facts.read_text().replace('"tags": []', f'"tags": ["{TOKEN}"]'))
    done = project.folder / ".labbook" / "runs" / run["id"] / "done.json"
    refused = {
        "status": "failed",
        "reason": "it may contain a secret in run.json:12 (github_token)",
        "commit": "",
        "ref": "",
    }
    done.write_text(json.dumps({**json.loads(done.read_text()), **refused}))
    settings.write_text(usual)

    said = project(command).stdout

    assert f"{run['entry']}, line {len(page.read_text().splitlines())}: password" in said
    assert "run.json, line " in said and ": github_token" in said and PASSWORD not in said and TOKEN not in said
    assert f"{run['id']} is no longer withheld: committed as " in said
    assert "[REDACTED:password]" in git(project.folder, "show", f"labbook:{run['entry']}")
    assert PASSWORD.encode() not in history(project.folder) and TOKEN.encode() not in history(project.folder)
    assert (
        json.loads(done.read_text())["status"] == "committed" and project.run()["tags"][0] == "[REDACTED:github_token]"
    )
    assert "nothing to recover" in project("recover").stdout


def test_an_entry_with_a_secret_known_only_to_the_run_stays_withheld(withheld):
    project, run_id = withheld
    book = find_notebook(project.folder, chosen=project.folder, environ={})
    slip = pending_commits(book.paths, queue=WITHHELD)[0]
    page = book.paths.root / slip.files[0]
    page.write_text(page.read_text() + f"\n{KNOWN}\n")
    enqueue(
        book.paths, slip.files, "m", 0.0, f"it may contain a secret in {slip.files[0]}, line 9 (known)", queue=WITHHELD
    )

    assert f"{run_id} is still withheld" in project("recover").stdout
    assert withheld_files(book.paths)
    assert "is no longer withheld" in project("recover", env={**os.environ, "MY_API_KEY": KNOWN}).stdout
    assert KNOWN not in page.read_text() and not withheld_files(book.paths)


def test_masked_runs_are_committed_for_any_option_names(project):
    """Values of secret options come and go between runs, and the console holds marks: none of it is a secret."""
    (project.folder / "train.py").write_text(
        "import argparse\n"
        "p = argparse.ArgumentParser()\n"
        "p.add_argument('--api-key', default='')\n"
        "p.add_argument('--password', default='')\n"
        "p.add_argument('--kind', default='kind: Secret')\n"
        "p.parse_args()\n"
        "print('docker login -u lab -p Zq81xxAb\\nmachine h login a password Zq81xxAb\\nnext')\n"
        "print('-----BEGIN RSA PRIVATE KEY-----\\nMIIEowIBAAKCAQEAu1SU1LfVLPHCozMxH2Mo\\n' * 2)\n"
        "for i in range(1200): print(f'password=Zq81xxAb{i}')\n"
    )
    for options in ([], ["--api-key", "Zq81xxAbQw"], [], ["--password", "Yp92yyCdRt"], []):
        said = project.record(sys.executable, "train.py", *options).stderr
        assert "committed as" in said, said
    assert not withheld_files(find_notebook(project.folder, chosen=project.folder, environ={}).paths)
