"""Masks secrets in everything that the probe writes; what cannot be judged is withheld, never passed through."""

import os
import sys

from ..events.jsonl import MaskedString, parse
from ..events.protocol import ARGUMENTS, CONFIG, ENV_PROBE, FILES, HELLO, KEEP, SOURCES, SPAWNED, TRIAL

WITHHELD = "[withheld: the redaction failed]"


_PATHS = {
    HELLO: ("executable", "prefix", "base_prefix", "cwd", "sys_path", "fd1", "fd2"),
    FILES: ("path",),
    CONFIG: ("path",),
    SOURCES: ("files",),
    KEEP: ("path",),
}
"""Fields that the recorder opens again. A secret in them is masked like everywhere, and the home folder becomes `~`;
other people's folders keep their names here, and lose them when the entry is made."""


class EventRedaction:
    """The redactor of this process, made when the first string asks for it.

    Args:
        library: A context manager in which only the standard library is imported.
        rules: Path of the notebook's own rules, as the recorder has checked them; the file is there only if it has any.
    """

    def __init__(self, library, rules=""):
        self._library = library
        self._rules = rules
        self._redactor = None
        self._known_values = self._redact_argv = None
        self._harmless = set()
        self._home = os.path.expanduser("~").rstrip("/")
        self._in_home = self._home + "/" if len(self._home) > 3 else "\0"

    def text(self, string):
        """What may be written of a string. Never raises."""
        if len(string) < 6 and string.isalnum():
            return string
        if string in self._harmless:
            return string
        try:
            redactor = self._redactor or self._make()
            short = self._replace_home(string)
            if redactor.needs_scan(short):
                with self._library:
                    return redactor.text(short)
            if short is string and len(string) <= 64 and len(self._harmless) < 4096:
                self._harmless.add(string)
            return short
        except Exception:
            return WITHHELD

    def path(self, string):
        """What may be written of a path that the recorder has to open. Never raises."""
        masked = self.text(string)
        return masked if "[REDACTED" in masked or masked == WITHHELD else self._replace_home(string)

    def _replace_home(self, string):
        """A path below the home folder, the usual case, needs no regular expression."""
        inside = string.startswith(self._in_home) and "\n" not in string
        return "~" + string[len(self._home) :] if inside else string

    def fields(self, kind, fields):
        """The fields of an event; those that need more than a look at each string are masked here."""
        if kind in (HELLO, SPAWNED) and "argv" in fields:
            fields = dict(fields, argv=self.argv(fields["argv"]))
        elif kind == ARGUMENTS:
            fields = dict(fields, values=self.data(fields["values"]))
        elif kind == TRIAL:
            fields = dict(fields, params=self.data(fields["params"]))
        elif kind == FILES:
            return {"items": [dict(item, path=MaskedString(self.path(item["path"]))) for item in fields["items"]]}
        elif kind == SOURCES:
            fields = dict(fields, environment=self.data(fields["environment"]))
        for name in _PATHS.get(kind, ()):
            value = fields[name]
            masked = (
                [MaskedString(self.path(p)) for p in value]
                if isinstance(value, list)
                else MaskedString(self.path(value))
            )
            fields = dict(fields, **{name: masked})
        return fields

    def argv(self, argv):
        """A command line, the values after secret-looking options masked. Never raises."""
        try:
            redactor = self._redactor or self._make()
            words = [self._replace_home(word) for word in argv]
            if any(redactor.needs_scan(word) for word in words) or redactor.needs_scan(" ".join(words)):
                with self._library:
                    words = self._redact_argv(words, redactor)
            return [MaskedString(word) for word in words]
        except Exception:
            return [WITHHELD]

    def data(self, plain):
        """Plain data, the values under secret-looking names masked. Never raises."""
        try:
            redactor = self._redactor or self._make()
            with self._library:
                self._learn(plain)
                return redactor.data(plain)
        except Exception:
            return WITHHELD

    def _learn(self, plain):
        """Remembers secret values of the program's options, wherever they are printed later."""
        found = self._known_values(dict(_named_texts(plain, "", 0)), [])
        if found:
            self._redactor.learn(found)
            self._harmless.clear()

    def _make(self):
        environ = {name: value for name, value in os.environ.items() if name != ENV_PROBE}
        with self._library:
            from .known_secrets import known_values
            from .redactor import Redactor
            from .structures import redact_argv

            known = known_values(environ, list(getattr(sys, "argv", [])))
            # A file that is there and cannot be read must withhold, never let pass: the error is the caller's.
            rules = _read(self._rules) if self._rules and os.path.exists(self._rules) else None
            self._redactor = Redactor(known, rules)
        self._known_values, self._redact_argv = known_values, redact_argv
        return self._redactor


def _read(path):
    with open(path, "rb") as stream:
        return parse(stream.read().decode("utf-8"))


def _named_texts(plain, name, depth):
    if isinstance(plain, str):
        yield name, plain
    elif isinstance(plain, (dict, list)) and depth < 8:
        items = plain.items() if isinstance(plain, dict) else [(name, item) for item in plain]
        for inner, item in items:
            for found in _named_texts(item, inner, depth + 1):
                yield found
