"""Which line of a traceback is shown as the place of an error."""

from __future__ import annotations

import re
from collections.abc import Sequence

from labbook.model.run import Frame

_RAISES_AGAIN = re.compile(r"raise(\s+\w+)?(\s+from\s+\w+)?")


def innermost_user_frame(frames: Sequence[Frame]) -> Frame | None:
    """Returns the innermost frame in the user's code, or `None`.

    A handler that raises a caught error again (`except ... as e: raise e`), above the code of a library that raised it,
    is no place of an error: a caller of the library is preferred.
    """
    own = [frame for frame in reversed(frames) if frame.user]
    last = frames[-1] if frames else None
    return next((f for f in own if f is last or not _RAISES_AGAIN.fullmatch(f.source.strip())), next(iter(own), None))
