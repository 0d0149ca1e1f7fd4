"""Limits of what is observed of a model's module outputs, the same for every framework."""

MOST_MODULES = 400
"""Modules, and pairs of connected modules, that are followed; a larger model is observed in its first ones."""

MOST_SAMPLES = 2048
"""Samples over which a unit must be 0 to count as dead."""
