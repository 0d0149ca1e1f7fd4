"""Parses the exceptions in the lines of one writer: tracebacks, chains, quoted tracebacks, bare last lines.

The parser goes once over the lines, so its cost is linear. It trusts shapes (a frame, a class before a colon) more than
indentation, since many texts were pasted.
"""

from __future__ import annotations

import re

from labbook.diagnosis.text.exception_message import find_stack_end, is_edge, read_message, read_native_message
from labbook.diagnosis.text.frame_reader import names_exception, read_frames
from labbook.diagnosis.text.log_lines import LogLine
from labbook.diagnosis.text.parsed_exception import (
    MAX_CHAIN,
    ParsedException,
    drop_display_failure,
    find_operator_error,
    has_same_start,
    is_remote,
    unwrap_remote,
)
from labbook.diagnosis.text.stack_frames import SHAPES, is_exception_class, make_frame, split_class
from labbook.diagnosis.text.traceback_styles import GROUP_RULE
from labbook.diagnosis.toml_data import compile_patterns
from labbook.model.run import Frame

_RE = compile_patterns(__file__)
_QUOTES = "`*\"'”"


class TracebackReader:
    """Reads the exceptions of one writer's lines."""

    def __init__(self, lines: list[LogLine]) -> None:
        self.lines = lines
        self.found: list[ParsedException] = []
        self.used: set[int] = set()
        """Places of lines that belong to an exception."""
        self.stacks: list[tuple[Frame, ...]] = []
        self._at = 0
        self._last: ParsedException | None = None
        self._outer: ParsedException | None = None
        self._link = ""
        self._thread = ""
        self._ignored = False
        self._fatal: ParsedException | None = None

    def read(self) -> list[ParsedException]:
        """All exceptions in order; the lines that belong to them are in `used`."""
        while self._at < len(self.lines):
            before = self._at
            self._step(self.lines[self._at].text)
            if self._at <= before:
                self._at = before + 1
        self.found = [drop_display_failure(one) for one in self.found]
        for one in self.found:
            unwrap_remote(one)
        return [one for one in self.found if one.type or one.message or one.frames]

    def _step(self, text: str) -> None:
        if not text.strip():
            return
        if SHAPES["thread_stack"].match(text):
            self._thread_stack()
        elif SHAPES["summary"].match(text):
            self._summary()
        elif SHAPES["cpp_section"].search(text):
            self._native_stack()
        elif SHAPES["python_section"].search(text) or SHAPES["rule"].match(text):
            self.used.add(self._at) if SHAPES["python_section"].search(text) else None
        elif text == GROUP_RULE:
            self._link = "group"
            self.used.add(self._at)
        elif SHAPES["header"].search(text) or SHAPES["frame"].match(text):
            self._block()
        elif chained := SHAPES["chained"].search(text):
            self._link = chained.lastgroup or ""
            self.used.add(self._at)
        elif SHAPES["ignored"].match(text):
            self._ignored = True
            self.used.add(self._at)
        elif thrown := SHAPES["thrown"].search(text):
            self._terminate(thrown)
        elif fatal := _RE["fatal"].match(text):
            self._fatal = ParsedException(self.lines[self._at], self._at + 1, "", "", f"Fatal Python error: {fatal[1]}")
            self.found.append(self._fatal)
            self.used.add(self._at)
        elif native := read_native_message(self.lines[self._at]):
            words, end = self._words(self._at, native, 2 if native.startswith("(") else 0)
            self.found.append(ParsedException(self.lines[self._at], end, "", "", "\n".join(words), bare=True))
            self._at = end
        elif named := SHAPES["thread"].match(text):
            self._thread = named["thread"] or ""
            self.used.add(self._at)
        else:
            self._free(text)

    def _block(self) -> None:
        """Parses a traceback from its header, or from its first frame where the header is cut off."""
        start, head = self._at, SHAPES["header"].search(self.lines[self._at].text)
        lead = self.lines[start].text[: head.start()] if head else ""
        relation = self._relation(start, lead)
        base = self.lines[start].indent if not lead.strip() else 0
        if head is None:  # a paste may begin behind the indentation of its first line
            base = max(0, base - 2, *(line.indent - 4 for line in self.lines[start + 1 : start + 2]))
        frames, at = read_frames(self.lines, start + 1 if head else start, base, self.used)
        one = ParsedException(
            self.lines[start], at, frames=frames, thread=self._thread, ended=not (self._ignored or self._thread)
        )
        if head:
            self.used.add(start)
        shown = SHAPES["exception"].match(self.lines[at].text.strip()) if at < len(self.lines) else None
        if shown and names_exception(self.lines[at], base, frames):
            one.module, one.type = split_class(shown["type"])
            words, one.end = self._words(at, shown["message"] or "", 40)
            one.message = "\n".join(words)
        elif head and frames and (behind := _RE["class_behind"].match(self.lines[start].text[head.end() :])):
            one.module, one.type = split_class(behind[1])
        self._at = max(one.end, start + 1)
        if not one.type and (not frames or self.lines[start].level in ("INFO", "DEBUG")):
            return
        if relation == "user code" and self._last is not None:
            self._last.frames += frames
            self._last.end = one.end
            return
        self._attach(one, relation)

    def _relation(self, start: int, lead: str) -> str:
        """How the traceback that begins here relates to the last exception."""
        if self._link:
            relation, self._link = self._link, ""
            return relation if self._last is not None else ""
        if self._last is None or start - self._last.end > 8:
            return ""
        above = next((line.text for line in reversed(self.lines[max(0, start - 4) : start]) if line.text.strip()), "")
        if SHAPES["user_code"].search(above) and not lead.strip():
            return "user code"
        ending = self._last.message.rstrip()[-300:]
        quoted = re.search(r"[Oo]riginal|Remote|traceback\s*:", lead) or "TorchScript" in self.lines[start].text
        return "inner" if quoted or _RE["intro"].search(above) or _RE["intro"].search(ending) else ""

    def _words(self, at: int, first: str, most_flush: int) -> tuple[list[str], int]:
        words, end, used = read_message(self.lines, at, first, most_flush)
        self.used.update(used)
        return words, end

    def _attach(self, one: ParsedException, relation: str) -> None:
        """Adds an exception to those parsed before: as a new one, as quoted, or as a link of a chain."""
        self._thread, self._ignored = "", False
        last = self._last
        if last is None or not relation:
            self.found.append(one)
            self._last, self._outer = one, None
            return
        if relation == "group":
            owner = self._outer or last
            if owner.inner is None and owner is not one:
                owner.inner = one
            else:
                self.found.append(one)
            self._last, self._outer = one, owner
            return
        if relation != "inner":
            self._chain(one, relation, last)
            return
        last.inner = self._last = one
        self._outer = last

    def _chain(self, one: ParsedException, relation: str, last: ParsedException) -> None:
        outer = self._outer
        # The next traceback continues the quotation, unless it starts where the quoting one started.
        if outer is not None and not has_same_start(one, outer) and not is_remote(outer):
            one.context = [(last, relation), *last.context]
            last.context = []
            outer.inner = one
            self._last = one
            return
        before = outer or last
        one.context = [(before, relation), *before.context][: 2 * MAX_CHAIN]
        before.context = []
        self.found = [other for other in self.found if other is not before]
        one.thread = one.thread or before.thread
        one.ended = one.ended and before.ended
        self.found.append(one)
        self._last, self._outer = one, None

    def _free(self, text: str) -> None:
        """Parses a line that names an exception without a traceback."""
        lead = _RE["in_front"].match(text)
        shown = SHAPES["exception"].match(text[lead.end() :] if lead else text)
        quiet = self.lines[self._at].level in ("INFO", "DEBUG", "WARNING")
        if shown is None or quiet or not is_exception_class(shown["type"]):
            return
        message = (shown["message"] or "").rstrip()
        while lead and message and message[-1] in _QUOTES and message[-1] in lead[0].replace("“", "”"):
            message = message[:-1]
        opened = next((mark for mark in "\"'`" if lead and lead[0].endswith(mark)), "")
        if opened and message.count(opened) == 1:
            message = message.split(opened)[0].rstrip()  # the quotation ends, the sentence goes on
        if not message and not re.search(r"(?:Error|Exception|Interrupt|Traceback)$", shown["type"]):
            return
        start = self._at
        above = self.lines[start - 1].text.strip() if start else ""
        if not message and shown["type"] == "AssertionError" and above.startswith("assert"):
            message = above
        relation = self._relation(start, "")
        module, name = split_class(shown["type"])
        words, end = self._words(start, message, 12)
        if self._last is not None and not self._last.type and self._last.frames and start - self._last.end < 8:
            one = self._last  # the end of a traceback that strangers' lines had cut
        else:
            one = ParsedException(self.lines[start], thread=self._thread, ended=not self._ignored, bare=True)
        one.type, one.module, one.message, one.end = name, module, "\n".join(words), end
        self._at = end
        if one is not self._last:
            self._attach(one, "inner" if relation == "user code" else relation)

    def _terminate(self, thrown: re.Match[str]) -> None:
        start, kind = self._at, thrown["a"] or thrown["b"]
        one = ParsedException(self.lines[start], start + 1, kind, "", thrown["what"] or "", bare=True)
        self.used.add(start)
        for at in range(start + 1, min(start + 4, len(self.lines))):
            what = _RE["what"].match(self.lines[at].text)
            if what:
                words, one.end = self._words(at, what[1], 20)
                one.message = "\n".join(words)
                if one.at.rank is None:
                    one.at = one.at._replace(rank=self.lines[at].rank)
                break
        if not one.message:  # all that is known is that it ended the process
            self.used.discard(start)
        self._at = one.end
        self._attach(one, "")

    def _native_stack(self) -> None:
        """Skips a stack of C++ functions."""
        at = find_stack_end(self.lines, self._at)
        self.used.update(n for n in range(self._at, at) if self.lines[n].text.strip())
        if self._last is not None and self._at - self._last.end < 8:
            self._last.end = at
        named = find_operator_error(self.found)
        if named is not None and at < len(self.lines) and not is_edge(self.lines[at].text, True):
            words, at = self._words(at, self.lines[at].text.strip(), 6)
            named.message, named.end, self._last = "\n".join([named.message, *words]), at, named
        self._at = at

    def _summary(self) -> None:
        """Parses Paddle's *Error Message Summary*: the message of an exception above, or of a signal."""
        start = self._at
        self.used.add(start)
        at = start + 1
        while at < len(self.lines) and (SHAPES["rule"].match(self.lines[at].text) or not self.lines[at].text.strip()):
            at += 1
        if at >= len(self.lines):
            return
        shown = _RE["paddle_class"].match(self.lines[at].text)
        words, end = self._words(at, self.lines[at].text.strip(), 20)
        self._at = end
        message = "\n".join(words)
        name = shown["type"] if shown else ""
        last = self._last
        if last is None or start - last.end > 12 or (last.type and last.message.strip()):
            last = ParsedException(self.lines[start], end, bare=True)
            self._attach(last, "")
        above = self.found[-2] if len(self.found) > 1 and self.found[-1] is last else None
        if above is not None and not last.type and above.type and not above.message.strip():
            # The frames in between show where the operator was created: the line to fix.
            above.frames += last.frames
            self.found.pop()
            self._last = last = above
        if not last.type or last.type == "EnforceNotMet":
            last.type, last.module = (name, "") if name and name != "Error" else (last.type or name, last.module)
            message = "\n".join([shown["message"], *words[1:]]) if shown and last.type == name else message
        last.message, last.end = message, end

    def _thread_stack(self) -> None:
        """Parses one thread of a `faulthandler` dump; the innermost frame comes first."""
        found = SHAPES["thread_stack"].match(self.lines[self._at].text)
        self.used.add(self._at)
        at, frames = self._at + 1, []
        while at < len(self.lines) and (shown := SHAPES["frame"].match(self.lines[at].text)):
            frames.append(make_frame(shown["file"], int(shown["line"]), shown["function"] or ""))
            self.used.add(at)
            at += 1
        self._at = at
        if self._fatal is not None and found and found["current"]:
            self._fatal.frames = frames[::-1]
        if frames and len(self.stacks) < 100:
            self.stacks.append(tuple(frames[::-1]))
