"""The user's source files that this process loaded, and the environment variables that they and their packages read."""

import os
import sys

from ..events import protocol
from .user_files import installed_folders, is_user_file

_MOST = 400
_MOST_BYTES = 400 * 1024
_MOST_BYTES_IN_ALL = 4 * 1024 * 1024
_MOST_VARIABLES = 60
_READS = r"""(?:environ(?:\.get|\.pop|\.setdefault)?|getenv)\s*[\[(]\s*["'](\w{2,80})["']"""
_IMPORTS = r"^[ \t]*(?:from|import)[ \t]+(\w+(?:[ \t]*,[ \t]*\w+)*)"
_SECRET = ("KEY", "TOKEN", "SECRET", "PASS", "PWD", "CRED", "AUTH", "COOKIE", "SESSION", "DSN", "WEBHOOK")
_MACHINE_WORDS = (
    "HOME PATH USER USERNAME LOGNAME SHELL PWD OLDPWD HOSTNAME TERM DISPLAY SHLVL EDITOR PAGER MAIL COLUMNS LINES "
    "LABBOOK_PROBE LABBOOK_NOTEBOOK PYTHONPATH"
)
_OF_THE_MACHINE = frozenset(_MACHINE_WORDS.split())


def install(probe):
    """Has the files and variables written when the process ends.

    Variables that the program or a package sets itself are left out: they follow from the code.
    """
    known, given = set(), dict(os.environ)
    again = {"fork": lambda: known.add("fork"), "python": known.clear}
    probe.after_fork(lambda: again.get(probe.role, bool)())
    guard = probe.guard("sources")

    def leave():
        if "fork" in known or probe.role == "trial":
            return  # a process writes them once, at its end
        with guard:
            names = {file: name for file, name in user_sources().items() if file not in known}
            known.update(names)
            cells = _cells()
            if names or cells:
                from ..redaction.environment_variables import allowed_environment  # the start does not wait for it

                texts, packages = dict(_read_texts(names)), loaded_packages()
                every = [*texts.values(), *cells]
                probe.event(
                    protocol.SOURCES,
                    files=list(names),
                    packages=packages,
                    imported=sorted(set(packages).intersection(_imported_names(every))),
                    environment=read_variables(every, given),
                    allowed=allowed_environment(given),
                    versions=_versions(packages),
                    modules=[[names[file], file, _digest(text)] for file, text in texts.items()],
                )

    probe.at_exit(leave)


def _cells():
    """The cells that a notebook's kernel has executed, whose main module has no file."""
    executed = getattr(sys.modules.get("__main__"), "In", None)
    return [text for text in executed if type(text) is str] if type(executed) is list else []


def user_sources():
    """Returns the user's files among the loaded modules, the main program first, each with the name of its module."""
    found = {}
    for name in ("__main__", *sorted(sys.modules)):
        module = sys.modules.get(name)
        # The interpreter takes `__file__` away from the main module before the exit handlers run.
        file = getattr(module, "__file__", None) or getattr(getattr(module, "__loader__", None), "path", None)
        if not isinstance(file, str) or not file.endswith(".py") or not os.path.isfile(file):
            continue
        if is_user_file(os.path.abspath(file)):
            found.setdefault(os.path.realpath(file), name)
            if len(found) >= _MOST:
                break
    return found


def loaded_packages():
    """Returns the names of the installed top-level modules that are loaded."""
    loaded = [(name, str(getattr(module, "__file__", None))) for name, module in list(sys.modules.items())]
    own = installed_folders()
    return sorted(n for n, file in loaded if "." not in n and ("-packages/" in file or file.startswith(own)))[:_MOST]


def _versions(packages):
    """Returns the version that each loaded package has as `__version__`; reads no file, imports nothing."""
    found = {name: vars(sys.modules[name]).get("__version__") for name in packages if name in sys.modules}
    return {name: version[:80] for name, version in found.items() if isinstance(version, str)}


def _digest(text):
    import hashlib

    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]


def _read_texts(files):
    """Yields source files with their texts, up to 4 MiB in all."""
    left = _MOST_BYTES_IN_ALL
    for file in files:
        try:
            size = os.stat(file).st_size
            if size > _MOST_BYTES or size > left:
                continue
            left -= size
            with open(file, encoding="utf-8", errors="replace") as stream:
                yield file, stream.read()
        except OSError:
            continue


def _imported_names(texts):
    """Yields the names of top-level modules that source texts import, wherever in them."""
    import re

    imports = re.compile(_IMPORTS, re.MULTILINE)
    for text in texts:
        for names in imports.findall(text):
            yield from names.replace(",", " ").split()


def read_variables(texts, environ):
    """Returns the variables that are set and that the texts name or that begin with the name of a loaded package."""
    import re

    reads = re.compile(_READS)
    names = {name for text in texts for name in reads.findall(text)}
    starts = tuple(name.upper() + "_" for name in loaded_packages() if len(name) > 3)
    chosen = [name for name in sorted(environ) if name in names or (starts and name.startswith(starts))]
    return {
        name: environ[name][:1000]
        for name in chosen[:_MOST_VARIABLES]
        if name not in _OF_THE_MACHINE and not any(word in name.upper() for word in _SECRET)
    }
