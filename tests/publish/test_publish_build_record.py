"""Whatever happened since the last build, what a build leaves is what a full build into an empty folder makes."""

from __future__ import annotations

from pathlib import Path

from labbook.publish.pages.build_record import content_key, file_state, read_record

IDS = [f"20261121-1000{number:02d}-aaa{letter}" for number, letter in enumerate("abcdefgh")]
MANY = 80
SETTINGS = Path(__file__).parents[2] / "templates" / "notebook" / "mkdocs.yml"


def test_a_file_of_this_moment_is_not_known_by_its_time(tmp_path):
    file = tmp_path / "x"
    file.write_text("x")
    found = file.stat()

    assert file_state(found, found.st_mtime_ns + 1_000_000) == ""
    assert file_state(found, found.st_mtime_ns + 10_000_000_000) != ""


def test_keys_tell_parts_apart():
    assert (
        content_key("ab", "c") != content_key("a", "bc")
        and content_key(b"1") != content_key(1)
        and content_key({"a": 1}) == content_key({"a": 1})
    )


def test_a_record_that_cannot_be_read_is_empty(tmp_path):
    odd = '{"form": 2, "frame": "", "days": %s, "pages": %s, "files": {}}'
    for text in ("", "[]", "{}", '{"form": 2}', odd % ("{}", "[]"), odd % ("[]", "{}"), "[" * 100_000):
        (tmp_path / "x").write_text(text)
        assert read_record(tmp_path / "x").pages == {}
