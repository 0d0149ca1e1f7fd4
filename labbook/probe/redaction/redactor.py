"""Secrets and personal paths out of text, before anything is written.

Three layers: values that are known beforehand, fixed formats, and what names say about the values beside them; then
personal paths. It belongs to the probe: standard library only, Python 3.8 syntax, nothing of labbook. Importing it
compiles nothing; rules are read and compiled when the first text needs them.
"""

import os

from .known_secrets import is_worth_masking, spellings
from .named_secrets import context_spans
from .paths_and_urls import PathsAndUrls, url_spans
from .prefilter import LinePrefilter, line_bounds
from .rules import FormatRule, rules_data
from .stream import KeyState, StreamRedactor, cut_lines, has_key
from .structures import redact_data

PATH_RULES = ("home", "user")
"""Rules that replace personal paths; all others mask secrets."""

_SHORT = 200
_MOST_CLEAN = 4096
_compiled = {}


class Redactor:
    """Replaces secrets by `[REDACTED:rule]` and personal paths by `~` or `[USER]`.

    Args:
        known: Values to mask wherever they occur, in every spelling; see `known_values`.
        rules: Further rules of this notebook, as an object with any of `rules` (list like the built-in formats),
            `names` (further secret names) and `allow` (texts that are no secrets). None: the built-in rules alone.
        home: The user's home folder; None: of this process. Empty: none.
        user: The user's login name; None: of this process. Empty: none.

    Attributes:
        counts: How often each rule masked something.
        names: Further secret names, in lower case.
        allowed: The texts of `allow`.
        window: Characters of a line without end that are worked on at a time, and the overlap to both sides.
    """

    def __init__(self, known=(), rules=None, home=None, user=None):
        self.counts = {}
        self.window = (65536, 8192)
        extra = rules or {}
        self.allowed = tuple(extra.get("allow", ()))
        self.names = frozenset(name.lower() for name in extra.get("names", ()))
        self._extra = [FormatRule(rule) for rule in extra.get("rules", ())]
        self._known = list(known)
        self._home = os.path.expanduser("~") if home is None else home
        self._user = _login() if user is None else user
        self._gate = None
        self._clean = set()  # short texts without anything to redact: the keys of JSON repeat
        self._needles = ()
        self._words = frozenset()

    def learn(self, values):
        """Adds values that became known during the run, as from a configuration file."""
        self._known.extend(value for value in values if is_worth_masking(value))
        self._gate = None

    def needs_scan(self, text):
        """Whether `text` may hold something to redact. Compiles nothing; never wrong when it says no."""
        if self._gate is None:
            self._prepare()
        if text in self._clean:
            return False
        if "\x1b" in text or self._gate.matches(text):
            return True
        if len(text) <= _SHORT and len(self._clean) < _MOST_CLEAN:
            self._clean.add(text)
        return False

    def text(self, text):
        """`text` with everything secret or personal replaced."""
        if not self.needs_scan(text):
            return text
        stream = StreamRedactor(self)
        return stream.feed(text) + stream.finish()

    def data(self, value):
        """JSON-like `value` with all strings redacted and values under secret-looking keys masked.

        Returns:
            Dictionaries with text keys, lists, text, numbers, booleans and None; anything else as its `repr`, cut.
        """
        return redact_data(value, self)

    def find(self, text):
        """What `text` would mask: list of (line number from 1, rule). Changes no count."""
        if not self.needs_scan(text):
            return []
        state = KeyState()
        found = []
        for number, line in enumerate(text.split("\n"), 1):
            found.extend((number, rule) for _, _, rule, _ in _merge_spans(self.spans(line, state)))
        return found

    def lines(self, block, state):
        """Whole lines redacted; `state` follows private keys from one call to the next."""
        if not block:
            return ""
        if self._gate is None:
            self._prepare()
        plain = _escapes().sub("", block) if "\x1b" in block else block
        if state.open or has_key(plain):
            return "".join(self.replace(line, self.spans(line, state)) for line in cut_lines(block))
        chosen = self._gate.lines(plain)
        if not chosen and not state.context.awaited:
            state.context.pass_by(plain)
            return block
        found = self._find_in_lines(plain, chosen, state.context)
        if plain is not block:
            return self._coloured(block, plain, {(start, end): spans for start, end, spans in found})
        out = []
        done = 0
        for start, end, spans in found:
            out += (block[done:start], self.replace(block[start:end], spans))
            done = end
        out.append(block[done:])
        return "".join(out)

    def _find_in_lines(self, text, chosen, context):
        """What to replace in whole lines, with the detectors in `chosen`: list of (start, end, spans)."""
        returns = "\r" in text
        waiting = sorted(chosen, reverse=True)
        found = []
        end = 0
        while waiting or (context.awaited and end < len(text)):
            start, end = line_bounds(text, end, returns) if context.awaited else waiting.pop()
            if waiting and waiting[-1] == (start, end):
                waiting.pop()
            line = text[start:end]
            context.move_to_line(text, start)
            spans = context.find_announced_value(line) + self._detect(line, chosen.get((start, end), ()), context)
            if spans:
                found.append((start, end, spans))
        context.pass_by(text)
        return found

    def _coloured(self, block, plain, found):
        """Lines with terminal escapes redacted; `found` has what to replace by the bounds of lines without them."""
        out = cut_lines(block)
        at = 0
        for index, line in enumerate(cut_lines(plain)):
            spans = found.get((at, at + len(line)))
            at += len(line)
            if spans:
                out[index] = self.replace(out[index], _restore_escapes(out[index], spans))
        return "".join(out)

    def line_spans(self, line):
        """What to replace in one line that stands by itself: list of (start, end, rule, text)."""
        return self.spans(line, KeyState())

    def spans(self, line, state):
        """What to replace in one line: list of (start, end, rule, text). Looks through terminal escapes."""
        if "\x1b" not in line:
            return self._spans(line, state)
        return _restore_escapes(line, self._spans(_escapes().sub("", line), state))

    def _spans(self, line, state):
        found = [(start, end, rule, "") for start, end, rule in state.spans(line) if end > start]
        if self._gate is None:
            self._prepare()
        chosen = self._gate.line(line)
        if chosen or state.context.awaited:
            found = found + state.context.find_announced_value(line) + self._detect(line, chosen, state.context)
        state.context.pass_by(line if line[-1:] in ("\n", "\r") else line + "\n")
        return found

    def replace(self, line, spans, begin=0, end=None):
        """`line[begin:end]` with the spans replaced and counted; spans that overlap become one."""
        end = len(line) if end is None else end
        out = []
        done = begin
        for start, stop, rule, mark in _merge_spans(spans):
            out.append(line[done:start])
            out.append(mark)
            if rule:
                self.counts[rule] = self.counts.get(rule, 0) + 1
            done = stop
        out.append(line[done:end])
        return "".join(out)

    def _prepare(self):
        """Builds the gate. The detector of a stem of names is the stem itself."""
        words = {}
        run_words = {}
        for rule in [*rules_data()["rules"], *self._extra]:
            for word in rule.keywords:
                (run_words if rule.run else words).setdefault(word, []).append(rule)
        for word in [*rules_data()["names"]["stems"], *self.names]:
            words.setdefault(word, []).append(word)
        words.setdefault("://", []).append(url_spans)
        places = PathsAndUrls(self._home, self._user)
        for word in places.gates:
            words.setdefault(word, []).append(places.spans)
        self._needles = sorted({form for value in self._known for form in spellings(value)}, key=len, reverse=True)
        self._words = frozenset(value for value in self._known if value.isalpha())
        self._clean = set()
        self._gate = LinePrefilter(words, run_words, {form: [self._known_spans] for form in self._needles})

    def _detect(self, line, detectors, context):
        found = []
        stems = []
        for detector in detectors:
            if isinstance(detector, str):
                stems.append(detector)
            elif isinstance(detector, FormatRule):
                spans = (span for span in detector.spans(line) if not _is_before_mark(line, *span))
                found.extend((start, end, detector.id, "") for start, end in spans)
            else:
                found.extend(detector(line))
        if stems:
            found.extend(context_spans(line, stems, self.names, context))
        return found and [span for span in found if not self.is_allowed(line[span[0] : span[1]])]

    def is_allowed(self, text):
        """Whether a rule of this notebook says that `text` is no secret, or it is masked already."""
        if text in self.allowed:
            return True
        mark, _, rest = text.lstrip(" \"'`\\(>=:").partition("]")
        return mark.startswith("[REDACTED:") and not any(char.isalnum() for char in rest)

    def _known_spans(self, line):
        found = []
        for form in self._needles:
            start = line.find(form)
            while start >= 0:
                end = start + len(form)
                # `banana` is masked as a word, not inside of `bananas`.
                inside = line[max(0, start - 1) : start].isalpha() or line[end : end + 1].isalpha()
                if not inside or form not in self._words:
                    found.append((start, end, "known", ""))
                start = line.find(form, end)
        return found

    def mark(self, rule):
        """The mark of a rule, counted."""
        self.counts[rule] = self.counts.get(rule, 0) + 1
        return "[REDACTED:%s]" % rule


def _is_before_mark(line, start, end):
    """Whether a span has only signs before a mark: quotes and backslashes of a command that was quoted twice."""
    if any(char.isalnum() for char in line[start:end]):
        return False
    return line[end:].lstrip("\"'\\").startswith("[REDACTED:")


def _login():
    for name in ("USER", "LOGNAME", "USERNAME"):
        if os.environ.get(name):
            return os.environ[name]
    return ""


def _merge_spans(spans):
    """Spans in order with their marks: a secret takes in what overlaps it; of two paths the first stays."""
    out = []
    for start, end, rule, mark in sorted(spans, key=lambda span: (span[0], -span[1], span[3], span[2])):
        text = mark or ("[REDACTED:%s]" % rule if rule else "")
        if not out or start >= out[-1][1]:
            out.append((start, end, rule, text))
            continue
        begun, stop, first_rule, first_text = out[-1]
        if mark and first_rule in PATH_RULES:
            continue
        if first_rule in PATH_RULES:
            first_rule, first_text = rule, text
        out[-1] = (begun, stop if mark else max(stop, end), first_rule, first_text)
    return out


def _escapes():
    if not _compiled:
        import re

        pattern = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\r\n]*(?:\x07|\x1b\\)|[@-Z\\-_])?"
        _compiled["escapes"] = re.compile(pattern)
    return _compiled["escapes"]


def _restore_escapes(line, spans):
    """Spans in the line without its terminal escapes as spans in the line itself."""
    if not spans or "\x1b" not in line:
        return spans
    offsets = []
    done = 0
    for match in _escapes().finditer(line):
        offsets.extend(range(done, match.start()))
        done = match.end()
    offsets.extend(range(done, len(line)))
    return [(offsets[start], offsets[end - 1] + 1, rule, mark) for start, end, rule, mark in spans]
