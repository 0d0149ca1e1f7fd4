"""Finds the lines of a text that may hold something to redact, without one regular expression.

Plain searches for literal words run at more than a GB/s each; patterns in Python run at a few MB/s. So all of the text
is searched for the words that every match of a rule must hold, and only lines with such a word meet the rule. Most
fixed formats are long runs of letters and digits: those words are looked for only in lines that hold such a run.
"""

from bisect import bisect_right

RUN = 16
"""Length of the run of letters, digits and `-_.~` that stands in every match of most formats."""

_RUN = b"a" * RUN
_WORDS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~"
_SHAPES = bytes(97 if chr(code) in _WORDS else 10 if code == 10 else 32 for code in range(256))


class LinePrefilter:
    """Words with the detectors that each of them calls for.

    Args:
        words: Word in lower case -> detectors, searched in every line.
        run_words: The same, for lines with a long run only.
        exact: Texts searched as they are written -> detectors.
    """

    def __init__(self, words, run_words, exact):
        self._words = [(word.encode("ascii"), calls) for word, calls in words.items() if word.isascii()]
        self._run_words = [(word.encode("ascii"), calls) for word, calls in run_words.items() if word.isascii()]
        self._exact = list(exact.items())
        for group in (words, run_words):
            self._exact += [(word, calls) for word, calls in group.items() if not word.isascii()]

    def matches(self, text):
        """Whether any word is in `text`."""
        low, shape = _bytes(text)
        if any(word in low for word, _ in self._words) or any(word in text for word, _ in self._exact):
            return True
        return _RUN in shape and any(word in low for word, _ in self._run_words)

    def line(self, line):
        """The detectors that one line calls for, as a set."""
        low, shape = _bytes(line)
        chosen = set()
        for word, calls in self._words:
            if word in low:
                chosen.update(calls)
        for word, calls in self._exact:
            if word in line:
                chosen.update(calls)
        if _RUN in shape:
            for word, calls in self._run_words:
                if word in low:
                    chosen.update(calls)
        return chosen

    def lines(self, block):
        """The lines of `block` that call for a detector: {(start, end): detectors}."""
        low, shape = _bytes(block)
        returns = "\r" in block
        chosen = {}
        for text, words in ((low, self._words), (block, self._exact)):
            for word, calls in words:
                at = text.find(word)
                while at >= 0:
                    bounds = line_bounds(block, at, returns)
                    _add(chosen, bounds, calls)
                    at = text.find(word, bounds[1])
        self._run_lines(block, low, shape, returns, chosen)
        return chosen

    def _run_lines(self, block, low, shape, returns, chosen):
        """Adds to `chosen` what lines with a long run call for, searching these lines put together."""
        bounds = []
        starts = []
        pieces = []
        length = 0
        at = shape.find(_RUN)
        while at >= 0:
            start, end = line_bounds(block, at, returns)
            bounds.append((start, end))
            starts.append(length)
            pieces.append(low[start:end])
            length += end - start
            at = shape.find(_RUN, end)
        text = b"".join(pieces)
        for word, calls in self._run_words:
            at = text.find(word)
            while at >= 0:
                index = bisect_right(starts, at) - 1
                end = starts[index] + bounds[index][1] - bounds[index][0]
                # Two lines put together may spell a word that stands in neither.
                if at + len(word) <= end:
                    _add(chosen, bounds[index], calls)
                at = text.find(word, end if at + len(word) <= end else at + 1)


def _bytes(text):
    """Lower case and shape of `text`, one byte a character, so that positions stay the same."""
    data = text.encode("ascii", "replace")
    return data.lower(), data.translate(_SHAPES)


def _add(chosen, bounds, calls):
    known = chosen.get(bounds)
    chosen[bounds] = calls if known is None else {*known, *calls}


def line_bounds(block, at, returns=True):
    """Start and end of the line around a position, with its line feed or carriage return."""
    start = block.rfind("\n", 0, at) + 1
    end = block.find("\n", at) + 1 or len(block)
    if returns:
        start = max(start, block.rfind("\r", start, at) + 1)
        end = block.find("\r", at, end) + 1 or end
    return start, end
