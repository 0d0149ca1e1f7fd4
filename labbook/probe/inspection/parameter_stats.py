"""How many parameters are looked at around a dense step, and how closely."""

MOST_PARAMETERS = 800
"""Parameters of an optimizer that are looked at; of larger models the first ones."""

CHECKED_FOR_STALE = 8
"""Parameters, evenly spread, whose gradients are checked for stale values between dense steps."""

MOST_FINGERPRINTED = 4096
"""Numbers in the fingerprint of all parameters, which ranks compare."""

CLEARED = 1024
"""Values of a gradient that are looked at to find out whether it was cleared."""

FEW = 16
"""Values of a gradient that are compared with those of the step."""
