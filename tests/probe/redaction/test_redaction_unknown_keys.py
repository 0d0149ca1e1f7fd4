"""Keys of services that no rule knows, and the rules that a notebook can add."""

import json
import random
import string
from pathlib import Path

import pytest

from labbook.probe.redaction.redactor import Redactor


def redactor():
    return Redactor(home="/home/wei", user="wei")


@pytest.mark.parametrize(
    "line", ["ACME_KEY=@S@", '{"tracker_key": "@S@"}', "--nimbus-key @S@", "client = Zorg(zorg_key='@S@')"]
)
def test_a_generated_key_of_an_unknown_service_is_masked(line):
    source = random.Random(3)
    letters = string.ascii_letters + string.digits
    keys = ["".join(source.choices(letters, k=32)) for _ in range(50)]
    assert sum(key in redactor().text(line.replace("@S@", key)) for key in keys) <= 8
    for value in ("3f2a9c81d4e5f60718293a4b5c6d7e8f", "ResNet50BottleneckBlock3LayerNorm2", "ckpt/epoch12/Model3.pt"):
        assert redactor().text(line.replace("@S@", value)) == line.replace("@S@", value)
    cache = line.lower().replace("@s@", keys[0])
    for name in ("acme_key", "tracker_key", "nimbus-key", "zorg_key"):
        cache = cache.replace(name, "cache_key")
    assert redactor().text(cache) == cache


def test_the_rules_of_the_documentation_mask_mails_logins_and_hosts():
    page = (Path(__file__).parents[3] / "docs" / "pages" / "privacy.md").read_text(encoding="utf-8")
    rules = json.loads(page.split("```json\n", 1)[1].split("```", 1)[0])
    own = Redactor(home="", user="", rules=rules)
    masked = own.text("wei.li@example.org logged in as wei@gpu07 on node3.corp.example.org\n")
    assert masked == "[REDACTED:mail] logged in as [REDACTED:login] on [REDACTED:host].corp.example.org\n"
    for plain in ("@dataclass", "x = a @ b", "model@0.5", "pkg@1.2.3", "mAP@50", "corp.example.org"):
        assert own.text(plain) == plain
