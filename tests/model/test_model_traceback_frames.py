"""The place of an error is where the user's code called what failed, not a handler that raised the error again."""

from __future__ import annotations

import pytest

from labbook.model.run import Frame
from labbook.model.traceback_frames import innermost_user_frame

CALL = Frame("train.py", 12, "main", "trainer.run(loader)", user=True)
LIBRARY = Frame("site-packages/engine.py", 5, "fire", "handler(error)")
INSIDE = Frame("site-packages/engine.py", 9, "step", "return a + b")


def handler(source):
    return Frame("train.py", 30, "on_exception", source, user=True)


@pytest.mark.parametrize("source", ["raise", "raise e", "raise error from None"])
def test_a_handler_that_raises_again_is_no_place(source):
    again = handler(source)
    assert innermost_user_frame([CALL, LIBRARY, again, LIBRARY, again, INSIDE]) is CALL
    assert innermost_user_frame([LIBRARY, again, INSIDE]) is again


@pytest.mark.parametrize(
    "frames",
    [
        [CALL, LIBRARY, handler("raise ValueError('no data')")],
        [CALL, LIBRARY, handler("raise error")],
        [CALL, LIBRARY, handler("raise_if_empty(batch)"), INSIDE],
        [handler("raise error"), CALL, INSIDE],
    ],
)
def test_the_innermost_line_of_the_user(frames):
    assert innermost_user_frame(frames) is [frame for frame in frames if frame.user][-1]
    assert innermost_user_frame([LIBRARY]) is None
