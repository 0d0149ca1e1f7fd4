"""What a program tries again, prunes or commits as a message of git is no failure; the same words alone are one."""

from __future__ import annotations

import pytest

from labbook.diagnosis.catalogue.matcher import Matcher
from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.diagnosis.cause_ranking import diagnose
from labbook.diagnosis.text.log_reader import read_text

MATCHER = Matcher(load_catalogue())
TIMEOUT = "HTTPSConnectionPool(host='cdn-lfs.hf.co', port=443): Read timed out."
WIDTH = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 10x2)"


@pytest.mark.parametrize(
    ("text", "is_failure"),
    [
        (f"'{TIMEOUT}' thrown while requesting GET\nRetrying in 1s [Retry 1/5].\neval acc 0.91\n", False),
        (f"requests.exceptions.ReadTimeout: {TIMEOUT}\n", True),
        (f"Retrying in 1s [Retry 5/5].\nrequests.exceptions.ReadTimeout: {TIMEOUT}\n", True),
        (f"[Trial 4] raised {WIDTH} -> pruned\n[Trial 5] finished with value 0.88\n", False),
        (f'git commit -m "fix: {WIDTH}"\n[main 3f2c1aa] fix: {WIDTH}\n1 file changed\n', False),
        (f"python train.py\n{WIDTH}\n", True),
    ],
)
def test_an_error_that_the_program_goes_on_after_is_no_failure(text: str, is_failure: bool) -> None:
    assert (diagnose(read_text(text), MATCHER).primary is not None) is is_failure
