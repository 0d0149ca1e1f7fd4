"""Statistics against SciPy."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labbook.health.evidence import trend_tests


@pytest.fixture(scope="module", autouse=True)
def scipy() -> None:
    """Imported when the first of these tests runs: every worker collects all files."""
    global stats, special
    stats = pytest.importorskip("scipy.stats")
    special = pytest.importorskip("scipy.special")


SAMPLES = st.lists(st.integers(-50, 50).map(lambda n: n / 4), min_size=4, max_size=80)


@given(SAMPLES)
def test_mann_kendall_is_kendall_against_time(values):
    found = trend_tests.mann_kendall(values)
    expected = stats.kendalltau(range(len(values)), values).statistic
    assert math.isclose(found.tau, 0.0 if math.isnan(expected) else expected, abs_tol=1e-9)


def test_mann_kendall_has_its_size():
    random_ = random.Random(0)
    hits = sum(trend_tests.mann_kendall([random_.gauss(0, 1) for _ in range(100)]).rising < 0.05 for _ in range(1000))
    assert 30 <= hits <= 70


@given(SAMPLES)
def test_theil_sen(values):
    expected = stats.theilslopes(values, range(len(values))).slope
    assert math.isclose(trend_tests.theil_sen(range(len(values)), values), expected, abs_tol=1e-9)


def test_theil_sen_of_a_long_series():
    steps = list(range(5000))
    assert math.isclose(trend_tests.theil_sen(steps, [0.5 * s for s in steps]), 0.5, rel_tol=1e-6)


@pytest.mark.filterwarnings("ignore:Precision loss")
@given(SAMPLES, SAMPLES)
def test_welch(first, second):
    t, p = trend_tests.welch(first, second)
    if trend_tests.variance(first) + trend_tests.variance(second) < 1e-9:
        return
    expected = stats.ttest_ind(first, second, equal_var=False, alternative="greater")
    assert math.isclose(t, expected.statistic, abs_tol=1e-8) and math.isclose(p, expected.pvalue, abs_tol=1e-8)


@given(st.floats(0.2, 200), st.floats(0.2, 200), st.floats(0, 1))
def test_incomplete_beta(a, b, x):
    assert math.isclose(trend_tests.incomplete_beta(a, b, x), special.betainc(a, b, x), abs_tol=1e-9)


@given(st.integers(0, 500), st.floats(0.01, 0.99), st.integers(1, 500))
def test_binomial_tail(successes, chance, trials):
    expected = stats.binom.sf(successes - 1, trials, chance)
    assert math.isclose(trend_tests.binomial_at_least(successes, trials, chance), expected, abs_tol=1e-9)


@given(SAMPLES, st.integers(1, 12))
def test_moving_median(values, width):
    found = trend_tests.moving_median(values, width)
    assert found == [trend_tests.median(values[max(0, i - width + 1) : i + 1]) for i in range(len(values))]


@given(SAMPLES)
def test_ranks(values):
    assert trend_tests.mid_ranks(values) == list(stats.rankdata(values))


def test_ranks_of_values_that_are_not_numbers_come_to_an_end():
    assert sorted(trend_tests.mid_ranks([math.nan, 1.0, math.nan])) == [1.0, 2.0, 3.0]


def test_spread_is_the_deviation_of_a_normal_sample():
    random_ = random.Random(1)
    assert trend_tests.robust_deviation([random_.gauss(5, 2) for _ in range(4000)]) == pytest.approx(2, rel=0.1)


def test_a_change_of_level_is_found_and_noise_is_not():
    random_ = random.Random(2)
    noise = [random_.gauss(0, 1) for _ in range(200)]
    at, p = trend_tests.change_point([v + 3 * (i >= 120) for i, v in enumerate(noise)])
    assert abs(at - 120) <= 3 and p < 1e-6
    calm = [trend_tests.change_point([random_.gauss(0, 1) for _ in range(100)])[1] for _ in range(200)]
    assert sum(p < 0.01 for p in calm) <= 8


def test_nothing_and_little():
    assert (
        math.isnan(trend_tests.median([]))
        and math.isnan(trend_tests.mean([]))
        and trend_tests.robust_deviation([]) == 0
    )
    assert trend_tests.welch([1.0], [2.0]) == (0.0, 1.0) and trend_tests.welch([1.0, 1.0], [1.0, 1.0]) == (0.0, 0.5)
    assert trend_tests.theil_sen([1], [1.0]) == 0.0 and trend_tests.mann_kendall([1.0]).rising == 1.0
    assert trend_tests.serial_correlation([1.0, 1.0, 1.0]) == 0.0 and trend_tests.change_point([1.0]) == (0, 1.0)
    assert trend_tests.student_above(math.inf, 3) == 0.0 and trend_tests.blocks([1.0, 2.0], 5) == [1.0, 2.0]
