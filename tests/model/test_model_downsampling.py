"""A shorter series keeps first, last, extremes, and where numbers stop being numbers."""

import math

from hypothesis import given
from hypothesis import strategies as st

from labbook.model.downsampling import downsample
from labbook.model.series import Series

_values = st.lists(st.floats(-1e6, 1e6) | st.sampled_from([math.nan, math.inf, -math.inf]), min_size=1, max_size=400)


def make_series(values):
    values = tuple(values)
    bad = sum(not math.isfinite(v) for v in values)
    return Series("loss", "probe", tuple(range(1, len(values) + 1)), values, values, values, len(values), bad)


@given(_values, st.integers(8, 60))
def test_downsampling_keeps_extremes_and_counts(values, points):
    whole = make_series(values)
    short = downsample(whole, points)
    assert len(short.values) <= max(points, 8) + 40
    assert short.steps == tuple(sorted(set(short.steps)))
    same = [(a, b) for a, b in ((short.first, whole.first), (short.last, whole.last))]
    assert all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in same)
    finite = [v for v in values if math.isfinite(v)]
    if finite:
        assert min(v for v in short.low if math.isfinite(v)) == min(finite)
        assert max(v for v in short.high if math.isfinite(v)) == max(finite)
    assert any(not math.isfinite(v) for v in short.values) == any(not math.isfinite(v) for v in values)


@given(_values)
def test_the_first_nonfinite_step_is_exact(values):
    whole, short = make_series(values), downsample(make_series(values), 8)
    first = next((s for s, v in zip(whole.steps, whole.values, strict=True) if not math.isfinite(v)), None)
    assert next((s for s, v in zip(short.steps, short.values, strict=True) if not math.isfinite(v)), None) == first


def test_a_short_series_is_returned_itself():
    series = make_series([1.0, 2.0])
    assert downsample(series, 8) is series
