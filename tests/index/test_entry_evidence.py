"""What an entry says that its run does not have is no evidence."""

from __future__ import annotations

import pytest

from labbook.errors import NothingFoundError
from labbook.index.query import search
from labbook.store.text.entry_text import block

RUN = "20261120-100000-aaaa"
HEALTH = """## Health checklist

| check | expected | observed | verdict |
|---|---|---|---|
| Finite loss | no NaN, no infinity | all 315 values finite | {ok} |
| Dead ReLU units | at most half | not observed: no activation | {unobserved} |
| Further checks |  | 9 ok, 2 not observed | {ok} |
| Saturated sigmoid | at most half | 80 % of them | **{fail}** |

- **Further checks**
    - label_noise: no labels were seen
- **Saturated sigmoid** (since step 3)
    - worst in layer4
"""
DATA = """| batch | tensor | colour |
|---|---|---|
| training | input 0 | sepia |
"""


DIAGNOSIS = """## Diagnosis

### Host out of memory (`oom_host`, certain)

- **Evidence:** the kernel logged it
- **{why}** A request far beyond the machine.
    - Or: the loader keeps its shards.

- **{fixes}**
    1. Use a smaller prefetch.
- **Consequences:** quenched
"""


@pytest.fixture(
    params=[
        ("ok", "not observed", "fail", "Cause:", "Fix:"),
        ("正常", "未观察到", "不通过", "原因：", "解决办法："),
        ("正常", "未观察到", "不通过", "原因：", "修复："),
    ],
    ids=["en", "zh", "zh of an older labbook"],
)
def book(notes, request):
    ok, unobserved, fail, why, fixes = request.param
    parts = [
        block("diagnosis", DIAGNOSIS.format(why=why, fixes=fixes)),
        block("health", HEALTH.format(ok=ok, unobserved=unobserved, fail=fail)),
        block("data", DATA),
        block("unobserved", "vanishing_gradient: too few layers"),
        block("console", "```text\nepoch 1 overflow False scaler=None\nwarning: tensor exotic\n```"),
        "## Conclusion\n\nThe scheduler was off by one.\n",
    ]
    notes.run(RUN, "\n".join(parts))
    return notes.notebook


@pytest.mark.parametrize(
    "words",
    ["infinity", "relu", "dead", "vanishing", "overflow", "scaler", "beyond", "shards", "prefetch", "noise", "colour"],
)
def test_what_the_run_does_not_have_is_not_found(book, words):
    with pytest.raises(NothingFoundError):
        search(book, words)


@pytest.mark.parametrize(
    "words", ["saturated sigmoid", "exotic", "scheduler off by one", "kernel logged", "quenched", "layer4", "sepia"]
)
def test_what_it_has_is_found(book, words):
    assert [hit.meta["id"] for hit in search(book, words).hits] == [RUN]
