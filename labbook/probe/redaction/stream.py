"""Text as it arrives: whole lines at a time, so that every way of cutting it gives the same result.

A line ends at a line feed or a carriage return. A line without end is worked on in windows that depend only on the
position in the line, with text to both sides of the cut. A private key is followed over lines, through a prefix on
each of them and without its last line.
"""

from .line_context import LineContext

_PATIENCE = 3
_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
_LONGEST_KEY = 16384
_BEGINNINGS = ("-----BEGIN", "Private-Lines:")

_compiled = {}


def _compile():
    import re

    _compiled["begin"] = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
    _compiled["end"] = re.compile(r"-----END (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
    _compiled["body"] = re.compile(r"(?:[A-Za-z0-9+/=]|\\{1,4}[nr]|\\{1,4}/|[ ](?=[A-Za-z0-9+/=]{16}))*")
    _compiled["run"] = re.compile(r"[A-Za-z0-9+/]{20,}={0,2}")
    _compiled["last"] = re.compile(r"(?:^|(?<=[\s:|>\]]))[A-Za-z0-9+/]{4,}={0,2}(?=[\"',\s]*$)")
    _compiled["putty"] = re.compile(r"Private-Lines:\s*\d+")


class KeyState:
    """Where in a private key the text is, and what stood before it.

    Attributes:
        open: Inside a key whose end has not been seen.
        context: The lines before.
    """

    rule = "private_key"

    def __init__(self):
        self.open = False
        self.context = LineContext()
        self._strange = 0

    def take_over(self, other):
        """Goes on where another state is."""
        self.open, self._strange = other.open, other._strange

    def spans(self, line):
        """Spans of key material in one line; moves the state on."""
        if not _compiled:
            _compile()
        found = []
        position = 0
        if self.open:
            # A key that was cut off ends at the latest where another one begins.
            begin = _compiled["begin"].search(line) or _compiled["putty"].search(line)
            if begin and not _compiled["end"].search(line, 0, begin.start()):
                self._read_inside_key(line[: begin.start()], found)
                self.open = False
                position = begin.start()
            else:
                position = self._read_inside_key(line, found)
        while not self.open:
            begin = _compiled["begin"].search(line, position) or _compiled["putty"].search(line, position)
            if not begin:
                break
            self.open, self._strange = True, 0
            end = _compiled["end"].search(line, begin.end(), begin.end() + _LONGEST_KEY)
            if end:
                self.open = False
                position = end.end()
            else:
                position = _compiled["body"].match(line, begin.end()).end()
                # A key on one line ends where something else begins.
                self.open = position - begin.end() < 40 or not line[position:].strip()
            found.append((begin.start(), position, self.rule))
        return found

    def _read_inside_key(self, line, found):
        end = _compiled["end"].search(line)
        if end:
            before = line[: end.start()].rstrip("\\nr").rstrip(_BASE64)
            found.append((len(before) if end.start() - len(before) >= 16 else end.start(), end.end(), self.rule))
            self.open = False
            return end.end()
        runs = [match.span() for match in _compiled["run"].finditer(line)]
        if not runs:
            last = _compiled["last"].search(line)
            runs = [last.span()] if last and not _is_word(last[0]) else []
            self._strange += 0 if _is_header(line) else 1
        else:
            self._strange = 0
        found.extend((start, stop, self.rule) for start, stop in runs)
        if self._strange >= _PATIENCE:
            self.open = False
        return len(line)


def _is_word(text):
    return text.isalpha() and (text.islower() or text.istitle())


def _is_header(line):
    text = line.strip()
    return not text or "Proc-Type:" in text or "DEK-Info:" in text or "Version:" in text or "Comment:" in text


def has_key(text):
    """Whether a private key may begin in `text`."""
    return any(mark in text for mark in _BEGINNINGS)


def cut_lines(text):
    """`text` as a list of lines with their ends, cut after each line feed and each carriage return."""
    if "\r" not in text:
        lines = text.split("\n")
        whole = [line + "\n" for line in lines[:-1]]
        return [*whole, lines[-1]] if lines[-1] else whole
    whole = []
    for line in text.split("\n"):
        parts = line.split("\r")
        whole.extend(part + "\r" for part in parts[:-1])
        whole.append(parts[-1] + "\n")
    whole[-1] = whole[-1][:-1]
    return [part for part in whole if part]


class StreamRedactor:
    """Redacts text that arrives in pieces; holds back what is not yet a whole line.

    Args:
        redactor: The rules, and the counts that are added to.
    """

    def __init__(self, redactor):
        self._redactor = redactor
        self._state = KeyState()
        self._pending = []
        self._length = 0
        self._line = _LongLine(redactor, self._state)

    def feed(self, text):
        """The redacted text of all lines that `text` completes."""
        if not text:
            return ""
        end = max(text.rfind("\n"), text.rfind("\r")) + 1
        out = []
        if end:
            self._pending.append(text[:end])
            block = "".join(self._pending)
            self._pending, self._length = [], 0
            out.append(self._block(block))
        if end < len(text):
            self._pending.append(text[end:])
            self._length += len(text) - end
            if self._length > self._line.need:
                out.append(self._windows())
        return "".join(out)

    def finish(self):
        """The redacted rest. The object can then be used for the next text."""
        rest = "".join(self._pending)
        self._pending, self._length = [], 0
        out = self._block(rest) if rest or self._line.begun else ""
        self._state.open = False
        self._state.context.forget()
        return out

    def _windows(self):
        rest = "".join(self._pending)
        out, rest = self._line.take(rest, False)
        self._pending, self._length = [rest], len(rest)
        return out

    def _block(self, block):
        """Whole lines, or the last one without an end."""
        out = []
        if self._line.begun:
            first = min((at for at in (block.find("\n"), block.find("\r")) if at >= 0), default=len(block) - 1) + 1
            out.append(self._line.take(block[:first], True)[0])
            block = block[first:]
        if len(block) <= self._line.need or not self._line.is_needed(block):
            out.append(self._redactor.lines(block, self._state))
            return "".join(out)
        short = []
        for line in cut_lines(block):
            if len(line) <= self._line.need:
                short.append(line)
                continue
            out.append(self._redactor.lines("".join(short), self._state))
            short = []
            out.append(self._line.take(line, True)[0])
        out.append(self._redactor.lines("".join(short), self._state))
        return "".join(out)


class _LongLine:
    """One line worked on in windows: `step` characters at a time, with `around` more to both sides."""

    def __init__(self, redactor, state):
        self._redactor = redactor
        self._state = state
        self._step, self._around = redactor.window
        self.need = self._step + self._around
        self.begun = False
        self._left = ""
        self._covered = False

    def is_needed(self, block):
        """Whether a line in `block` may be longer than one window."""
        return any(len(line) > self.need for line in block.split("\n"))

    def take(self, text, ended):
        """Redacted windows of `text`, and the rest that needs more text. `ended`: `text` holds the line's end."""
        out = []
        while len(text) > self.need:
            done, text_out = self._window(text[: self.need], False)
            out.append(text_out)
            text = text[done:]
            self.begun = True
        if ended:
            out.append(self._window(text, True)[1])
            self.begun, self._left, self._covered = False, "", False
            self._state.context.forget()
            text = ""
        return "".join(out), text

    def _window(self, text, last):
        """One window: how many characters of `text` are done, and their redacted form."""
        left = len(self._left)
        whole = self._left + text
        limit = len(whole) if last else left + self._step
        kept = []
        for start, end, rule, mark in self._spans(whole, left, last):
            if end > left and start < limit:
                kept.append((max(start, left), end, rule, mark))
        done = max([limit] + [end for _, end, _, _ in kept])
        # What reaches the end of the window goes on in the next one.
        self._covered = not last and any(end >= len(whole) for _, end, _, _ in kept)
        out = self._redactor.replace(whole, kept, left, done)
        self._left = whole[max(0, done - self._around) : done]
        return done - left, out

    def _spans(self, whole, left, last):
        # Windows overlap by more than a key is long, so each looks for keys by itself; only the first goes on from
        # the line before, and the last hands on to the line after.
        state = KeyState() if self.begun else self._state
        spans = self._redactor.spans(whole, state)
        if last:
            self._state.take_over(state)
        elif state is self._state:
            self._state.open = False
        if self._covered:
            stop = left
            while stop < len(whole) and whole[stop] not in " \t\r\n\"'<>`":
                stop += 1
            spans.append((left, stop, "", ""))
        return spans
