"""Lines that show code, results of a search, names of tests or rows of a table report no failure."""

from __future__ import annotations

from collections.abc import Callable

from order_of_tests import in_one_test

OOM = "CUDA out of memory"
SHOWN = {
    "grep -rn": "src/fit.py:41:    raise RuntimeError('{}')\nsrc/retry.py:7:        if '{}' in str(error):\n",
    "grep -A": "src/fit.py-40-def step():\nsrc/fit.py:41:    message = 'RuntimeError: {}'\nsrc/fit.py-42-    stop()\n",
    "shell code": 'set -e\nif grep -q "RuntimeError: {}" out.log; then\n  echo "{}, trying again"\nfi\n',
    "a shell script": "#!/bin/sh\n# RuntimeError: {}\n./fit --small || exit 1\n",
    "calls of Python": "def step(batch):\n    logger.error('RuntimeError: {}')\n    raise errors.Stop('{}')\n",
    "a patch": "diff --git a/f.py b/f.py\n@@ -3,2 +3,2 @@ def step():\n-RuntimeError: {}\n+RuntimeError: {}!\n",
    "a source line below a warning": 'f.c:9:3: warning: unused variable\n    9 |   char *m = "{}";\n      |   ^~~\n',
    "names of tests": "tests/test_fit.py::test_raises[RuntimeError: {}] PASSED   [ 50%]\ntest_retry[{}] ... ok\n",
    "tests with expected failures": "RuntimeError: {}\n== 9 passed, 1 skipped, 2 xfailed, 1 warning in 2.10s ==\n",
    "counts of values": "reason\n{}        12\nslow disk        4\nName: count, dtype: int64\n",
    "a table": "| class of failure   | precision | recall | texts |\n| {} | 0.91 | 0.88 | 120 |\n",
    "a list in JSON": '{{\n  "retried": ["{}", "Connection reset by peer"],\n  "times": 3\n}}\n',
    "a list in Python": "['{}', 'slow start of a fit']\nvocabulary 812\n",
    "a translation": 'msgid "{}"\nmsgstr "显存不足"\n',
    "strings of a configuration": 'retry_on:\n  - "{}"\n  - "No space left on device"\nretries: 3\n',
    "a table of texts": '7,"{} with two cards",memory\n8,"slow start",other\n',
    "fields of a manual": "fit(x)\n\n:raises RuntimeError: {}\n:returns: the loss\n",
    "tests of Go": "=== RUN   TestA\n    a_test.go:9: {}\n--- PASS: TestA (0.0s)\nPASS\nok      x/a 0.01s\n",
    "tests of JavaScript": " PASS  a.test.ts\n  ✓ {} is caught (3 ms)\n\nTests:       1 skipped, 2 passed, 3 total\n",
    "a question for pupils": "Q3. What does this print?\n (a) RuntimeError: {}\n (b) nothing\n",
    "links to questions": "Related questions\n- {} with one sample (12 answers)\n",
    "a letter about a change": 'The crash is gone. Please review the PR "Catch RuntimeError: {}" today.\n',
    "help of options": "Options of fit:\n  --retry N    repeat after RuntimeError: {}\n  -q, --quiet  print less\n",
    "help of click": "Usage: fit [OPTIONS]\n\n  Raises RuntimeError: {}\n\nOptions:\n  --help  Show this message.\n",
    "a commit": "commit 1f0c2d3a\nAuthor: A <a@b.c>\n\n    Catch RuntimeError: {} in the evaluation\n",
    "a repeated installation": "  building x ... RuntimeError: {}\n  taking the wheel\nSuccessfully installed x-2.5\n",
    "settings of tools": "[tool.fit]\nretry = 3\n# RuntimeError: {}\n",
    "a changelog": "## 1.4.0\n\n### Fixed\n\n- RuntimeError: {} with two workers\n",
    "a manual": "Help on class Failure in module fit:\n\nclass Failure(builtins.Exception)\n |  RuntimeError: {}\n",
    "a log that says please": "please install libaio for faster reads\n[W] RuntimeError: {}, halving\n"
    + "loss: 0.3\n" * 4,
}


WHOLE = (
    "a patch",
    "a shell script",
    "a changelog",
    "a manual",
    "a question for pupils",
    "links to questions",
    "a commit",
    "settings of tools",
    "help of click",
)
"""Known by the beginning of the text."""


@in_one_test("name", SHOWN)
def test_what_a_line_shows_did_not_happen(family_of: Callable[[str], str], name: str) -> None:
    """Neither in a short text nor in a long one, of which only the lines with rare words are read."""
    text = SHOWN[name].format(OOM, OOM)
    assert family_of(text) == ""
    assert family_of("reading samples\n" * 300 + text) == "" or name in WHOLE


@in_one_test(
    "text",
    [
        f"fit.log:812:RuntimeError: {OOM}. Tried to allocate 2.00 GiB\n",
        f"fit.log:811:step 40\nfit.log:812:RuntimeError: {OOM}. Tried to allocate 2.00 GiB\n",
        f"fit.py:88:ERROR:RuntimeError: {OOM}\n",
        f"- RuntimeError: {OOM}\n- with 8 samples\n",
        f"| RuntimeError: {OOM} |\n",
        f"with a batch of 64 I get this:\nRuntimeError: {OOM}\n",
        f"raise RuntimeError(text)\nRuntimeError: {OOM}\n",
        f"test_a.py::test_a PASSED\ntest_a.py::test_b FAILED\nE   RuntimeError: {OOM}\n1 failed, 1 passed\n",
        f'{{"error": "{OOM}"}}\n',
        f'message: "{OOM}"\n',
        f"1. {OOM}\n2. what can I do?\n",
        f"while training is running I get {OOM}:\n",
        f"RuntimeError: {OOM} although a smaller batch was passed\n",
        f"9 passed\n$ python fit.py\nRuntimeError: {OOM}\n",
    ],
)
def test_the_same_message_in_a_report_is_found(family_of: Callable[[str], str], text: str) -> None:
    assert family_of(text) == "cuda_oom"


def test_many_failures_of_different_kinds_without_a_traceback_are_a_list(family_of: Callable[[str], str]) -> None:
    rows = ["Address already in use", "No space left on device", "Permission denied: 'a.bin'", f"RuntimeError: {OOM}"]
    assert family_of("\n".join(rows)) == ""
    assert family_of("\n".join([*rows[:1], *rows[3:]])) != ""
    traceback = 'Traceback (most recent call last):\n  File "fit.py", line 3, in <module>\n    step()\n'
    assert family_of("\n".join([*rows, traceback + f"RuntimeError: {OOM}"])) == "cuda_oom"


def test_a_message_in_marks_of_code_that_quotes_with_the_same_mark_is_whole(family_of: Callable[[str], str]) -> None:
    said = "RuntimeError: Assertion `cur_target >= 0 && cur_target < n_classes' failed."
    assert family_of(f"`{said}`\n") == family_of(said) == "index_out_of_range"


def test_a_comment_in_the_code_of_a_notebook_is_no_error(family_of: Callable[[str], str]) -> None:
    code = f"     10     # ValueError: no rows\n     11     # RuntimeError: {OOM}\n---> 12     fold(2)\n"
    head = "OddError      Traceback (most recent call last)\n~/fit.py in fit(x)\n"
    assert family_of(head + code) == family_of(head + code + "\nOddError: quite odd\n") == ""


def test_a_longer_word_is_not_the_word_of_a_page(family_of: Callable[[str], str]) -> None:
    assert family_of("cudaHostAlloc failed for 2 GiB") != ""
    assert family_of("bound to the cudaHostAllocator of this process") == ""


def test_a_stack_that_a_log_prints_for_information_is_no_failure(family_of: Callable[[str], str]) -> None:
    """`TORCH_LOGS` prints stacks without an exception."""
    stack = ("guard of the frame was made here:", '  File "fit.py", line 5, in step', "    print(x)")
    library = ('  File "/lib/python3.11/site-packages/torch/_dynamo/convert.py", line 9, in call', "    self.call(x)")
    lines = [f"{{}}1126 22:26:36.028000 229 torch/_dynamo/convert.py:51] [0/0] {line}" for line in (*stack, *library)]
    assert family_of("\n".join(lines).replace("{}", "V")) == family_of("\n".join(lines).replace("{}", "I")) == ""
    failed = [*lines, "{}1126 22:26:36.030000 229 torch/_dynamo/convert.py:51] RuntimeError: CUDA out of memory"]
    assert family_of("\n".join(failed).replace("{}", "E")) == "cuda_oom"
