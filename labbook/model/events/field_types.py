"""Types of fields with a limit: the reader of events checks it, mypy sees the plain type."""

from __future__ import annotations

from typing import Annotated, Any

FINITE, NOT_NEGATIVE, POSITIVE, LONG = "finite", "not negative", "positive", "long"

Finite = Annotated[float, FINITE]
"""A number that is neither NaN nor infinite; a plain `float` may be either."""

Count = Annotated[int, NOT_NEGATIVE]
"""A whole number, at least 0."""

Counts = dict[str, Annotated[int, POSITIVE]]
"""How often something was seen; what was not seen is left out."""

Text = Annotated[str, LONG]
"""A text of any length; a plain `str` is cut after 2000 characters."""

Texts = Annotated[list[Text], LONG]
"""Any number of them; a plain list is cut after 4000 entries."""

Shape = tuple[int, ...]
Options = dict[str, Any]
"""Values that the program chose; any JSON."""
