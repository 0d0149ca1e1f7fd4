"""Which backward calls have their autograd graph walked: the first ones, and one once the loop is under way."""

FIRST = 4
"""Backward calls at the start that are looked at as long as a parameter is missing."""

AGAIN = 20
"""The later backward call that is looked at in any case."""
