"""Numbers read as people write them."""

import math

from order_of_tests import in_one_test

from labbook.report.numbers import duration, listed_value, number, pair, percent, size, without_noise


@in_one_test(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (12345.0, "12345"),
        (2.31049, "2.31"),
        (1e-05, "1e-05"),
        (math.nan, "NaN"),
        (-math.inf, "-inf"),
        (3e9, "3e+09"),
        (0.1, "0.1"),
    ],
)
def test_number(value, text):
    assert number(value) == text


def test_a_pair_has_the_digits_that_tell_it_apart():
    assert pair(0.123456, 0.123457) == ("0.123456", "0.123457")
    assert (
        pair(2.31, 0.08) == ("2.31", "0.08")
        and pair(1.0, 1.0) == ("1", "1")
        and pair(math.nan, math.nan) == ("NaN", "NaN")
    )


@in_one_test("value", [0.993254, 0.993246, 0.1234549999, 2.5, -1.00005001, math.nan, math.inf])
def test_a_listed_value_is_shown_as_the_value_itself(value):
    assert number(listed_value(value)) == number(value) and len(repr(listed_value(value))) <= 9


def test_a_printed_value_is_equal_to_the_one_that_it_rounds():
    assert pair(0.5417, 0.5416666666666666) == ("0.5417", "0.5417")
    assert pair(0.5, 0.50002) == ("0.5", "0.50002") and pair(0.91234, 0.91237) != ("0.9123", "0.9123")


@in_one_test(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.00035, "0.35 ms"),
        (0.9996, "1 s"),
        (3.42, "3.4 s"),
        (9.96, "10 s"),
        (84.2, "84 s"),
        (99.6, "1 min 40 s"),
        (120, "2 min"),
        (3599.6, "1 h"),
        (3600, "1 h"),
        (12000, "3 h 20 min"),
        (187200, "2 d 4 h"),
    ],
)
def test_duration(seconds, text):
    assert duration(seconds) == text


@in_one_test(
    ("n", "text"),
    [
        (-1, "-"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (1024**2 - 1, "1 MiB"),
        (3 << 30, "3 GiB"),
        (1 << 62, "4096 PiB"),
    ],
)
def test_size(n, text):
    assert size(n) == text


def test_percent():
    assert [percent(v) for v in (None, 0, 0.0004, 0.006, 0.123)] == ["-", "0 %", "under 0.1 %", "0.6 %", "12 %"]


@in_one_test("seconds", [14.46, 14.5, 14.54, 15.45, 99.44])
def test_a_list_shows_the_duration_that_the_entry_shows(seconds):
    assert duration(seconds) == duration(round(seconds, 1))


def test_the_last_digits_that_arithmetic_leaves_are_not_shown():
    assert [without_noise(value) for value in (0.05 * 0.2, 3, "a", None)] == [0.01, 3, "a", None]
