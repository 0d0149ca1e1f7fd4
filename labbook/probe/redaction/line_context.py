"""What the lines before a line say about it: the section that a name is in, and a name whose value comes next.

In YAML, TOML and JSON the name of a value may be on a line of its own: `wandb:` above `key: ...`, `secret: >-` above
the secret. Only the last lines before a line are looked at, so that the result does not depend on how text arrives.
"""

from .rules import has_digit
from .secret_names import name_class, split_words, value_is_secret

REACH = 2048
"""Characters before a line that are looked at."""

_LINES = 24

_compiled = {}


def _compile():
    import re

    _compiled["section"] = re.compile(r"\[{1,2}\s?([\w.\"'-]{1,64})\s?\]{1,2}\s*$")
    _compiled["parent"] = re.compile(r"[\"']?([\w.-]{1,64})[\"']?\s?[:=]\s?[{(]?\s*$")
    _compiled["inline"] = re.compile(r"([\w.-]{1,64})[\"']?\s?[:=]\s?$")
    _compiled["name"] = re.compile(r"\s*[\"']?([\w.-]{1,64})[\"']?\s?[:=]")
    # Nothing after the name but the sign of a text over several lines.
    _compiled["end"] = re.compile(r"[\"']?\s?(?:[:=]\s{0,4}(?:[|>][+-]?[0-9]?|\[|&\w{1,32})?|</name>|\s{1,4}\\)?\s*$")
    _compiled["label"] = re.compile(r"(?:[\s{,<-]|^)[\"']?(?:name|key)[\"']?\s?[:=>]\s{0,4}[\"']?$")
    _compiled["value"] = re.compile(
        r"[\s+>|]{0,200}(-\s{1,4})?(?:([\"']?value[\"']?\s?:|<value>)\s{0,4})?([\"']?)([^\s\"'<>,]{4,4096})\3(?:</value>)?[,\]]?(?:\s\\)?\s*$"
    )


class LineContext:
    """The text before a line, and the name that its value is awaited for.

    Attributes:
        before: The last characters before the text that is worked on.
        awaited: Kind and column of the name above, and whether its value is labelled `value`; None: no name.
    """

    __slots__ = ("_above", "awaited", "before")

    def __init__(self):
        self.forget()

    def forget(self):
        """Starts anew, as after a line too long to be one of a configuration."""
        self.before = ""
        self._above = ("", 0)
        self.awaited = None

    def pass_by(self, text):
        """Goes on behind whole lines in which nothing is to be looked at."""
        self.before = (self.before + text[-REACH:])[-REACH:]
        self._above = ("", 0)

    def move_to_line(self, text, start):
        """Moves to the line of `text` that begins at `start`; `text` itself follows on `before`."""
        self._above = (text, start)

    def find_announced_value(self, line):
        """Where the value is that the line before announced: list of (start, end, rule, text)."""
        if not self.awaited or not line.strip():
            return []
        kind, column, labelled = self.awaited
        self.awaited = None
        match = _compiled["value"].match(line)
        if not match or bool(match.group(2)) != labelled:
            return []
        value = match.group(4)
        quoted = bool(match.group(3))
        inside = labelled or match.group(1) or match.start(4) > column
        # A password may have no digit; a word under its name alone may be anything.
        is_chosen = kind == "password" and value.lower() != value != value.upper() and not value.istitle()
        is_chosen = is_chosen and (labelled or any(char in "!#$%&*+=?@^~" for char in value))
        if not inside or not (has_digit(value) or is_chosen) or (value.endswith(":") and not quoted):
            return []
        secret = value_is_secret(value, kind, quoted, ":")
        return [(match.start(4), match.end(4), kind, "")] if secret else []

    def await_value(self, line, left, right, kind):
        """Remembers the name in `line[left:right]` if its value is on the next line."""
        if not _compiled:
            _compile()
        if kind in ("header", "phrase") or not _compiled["end"].match(line, right):
            return
        # The next word of a command, or a part of a form: wherever it begins.
        apart = line.startswith("--", left) or "form-data;" in line[:left]
        labelled = not apart and bool(_compiled["label"].search(line, max(0, left - 64), left))
        if labelled or apart or line[right:].strip(" \t\r\n\"'"):
            self.awaited = (kind, -1 if apart else left, labelled)

    def section(self, line, left):
        """The name of what encloses the name at `left`: a dictionary in this line, or a section of lines before."""
        if not _compiled:
            _compile()
        depth = 0
        start = max(0, left - 512)
        for at in range(left - 1, start - 1, -1):
            if line[at] in "}{":
                depth += 1 if line[at] == "{" else -1
                if depth > 0:
                    match = _compiled["inline"].search(line, max(start, at - 70), at)
                    return match.group(1) if match else ""
        return "" if line[:left].strip(" \t+-\"'") else self._section_above(len(line) - len(line.lstrip(" \t+-")))

    def _section_above(self, column):
        text, start = self._above
        above_text = text[max(0, start - REACH) : start]
        if start < REACH:
            above_text = (self.before + above_text)[-REACH:]
        for above in reversed(above_text.splitlines()[-_LINES:]):
            text = above.lstrip(" \t+-")
            if not text or text[0] == "#":
                continue
            section = _compiled["section"].match(text)
            if section:
                return section.group(1).strip("\"'")
            indent = len(above) - len(text)
            if indent < column:
                parent = _compiled["parent"].match(text)
                return parent.group(1) if parent else ""
            name = _compiled["name"].match(text)
            if name and indent == column and name.group(1) == "username":
                return "kaggle"
            if not name and indent == column and text[0] not in "}])":
                return ""
        return ""


def class_in_section(name, section, extra):
    """What kind of secret a plain `key` is within a section: `weak` within that of a service, otherwise none."""
    last = split_words(section)[-1:]
    return "weak" if last and name_class(last[0] + "_" + name, extra) in ("secret", "password") else ""
