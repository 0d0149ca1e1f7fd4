"""How far evaluated weights have gone of the way of the trained ones: averages, snapshots, and the trained ones."""

import random

import pytest

from labbook.probe.inspection.parameter_stats import Way, compare_ways

pytestmark = pytest.mark.pure


def path(steps, seed=0, size=64):
    """The weights of a training: each goes to a value of its own, fast at first, with noise of the batches."""
    drawn = random.Random(seed)
    weights, goal, paces = ([drawn.gauss(0, 1) for _ in range(size)] for _ in range(3))
    found = []
    for _ in range(steps):
        found.append(list(weights))
        moves = zip(weights, goal, paces, strict=True)
        weights = [w + (0.002 + 0.02 * abs(p)) * (g - w) + 0.02 * drawn.gauss(0, 1) for w, g, p in moves]
    return found


def measure(weights, ways):
    way = Way(random, [], [], ways[0], 0)  # any object that can be referred to weakly
    for step in (1, 2, 3, 5, 9, 20, 40, 80, 150, 300):
        way.move(ways[step], step)
    return compare_ways(way, weights, ways[-1], len(ways) - 1)


def average(ways, decay):
    found = ways[0]
    for weights in ways[1:]:
        found = [decay * a + (1 - decay) * w for a, w in zip(found, weights, strict=True)]
    return found


@pytest.mark.parametrize(("decay", "low", "high"), [(0.9999, 0, 0.1), (0.999, 0.1, 0.5), (0.98, 0.8, 1.1), (0.0, 1, 1)])
def test_an_average_lies_along_the_sum_of_the_ways(decay, low, high):
    ways = path(400)
    share, along = measure(average(ways, decay), ways)
    assert low <= share <= high and along > (0.98 if decay >= 0.999 else 0.8)


def test_an_early_snapshot_does_not():
    ways = path(400)
    for step in (5, 10, 15, 20):
        share, along = measure(ways[step], ways)
        assert share < 0.2 or along < 0.98
        assert along < 0.98


def test_weights_that_do_not_move_are_not_measured():
    still = [[1.0] * 8] * 400
    assert measure(still[0], still) is None
