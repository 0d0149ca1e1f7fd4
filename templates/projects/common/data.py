"""Points on the arms of a spiral, as plain lists: a problem that a small network solves in seconds."""

import math
import random


def make_spirals(points, arms, noise, seed):
    """Returns shuffled points and the number of the arm of each.

    Shape:
        Points: `points` pairs (x, y) between about -1 and 1. Labels: `points` integers from 0 to `arms` - 1.
    """
    generator = random.Random(seed)
    found = []
    for number in range(points):
        arm = number % arms
        radius = 0.1 + 0.9 * generator.random()
        angle = 2 * math.pi * arm / arms + 3 * radius + generator.gauss(0, noise)
        found.append((radius * math.cos(angle), radius * math.sin(angle), arm))
    generator.shuffle(found)
    return [(x, y) for x, y, _ in found], [arm for _, _, arm in found]


def split(items, share=0.8):
    """Returns the items for training and those for validation."""
    cut = int(share * len(items))
    return items[:cut], items[cut:]
