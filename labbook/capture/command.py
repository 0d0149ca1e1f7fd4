"""Finds the program of a command line behind launchers, interpreters and shells.

Facts: `argv` (redacted), `line` (as typed in a shell), `script`, `kind` ("python", "module", "inline", "notebook",
"shell" or "program"), `launchers` (names, outermost first), `arguments` (of the program itself), `environment`
(variables on the allow list, and those that the program read), `environment_names` (number of the other variables),
`environment_set` (digests of the names of all variables that were set).
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from labbook.capture.context import CaptureContext
from labbook.capture.launchers import LAUNCHERS, Launcher, is_python, unwrap_launcher
from labbook.frozen import dataclass
from labbook.store.project_folder import find_repository

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish", "ash"})
_PREPARING_WORDS = frozenset({
    "cd", "export", "source", ".", "set", "unset", "echo", "printf", "mkdir", "module", "conda-activate", "ulimit",
    "true", "sleep", "umask", "eval", "test", "[", "pushd", "popd", "conda", "mamba", "micromamba", "rm", "cp", "mv",
    "ls", "cat", "date", "trap",
})  # fmt: skip
"""Commands of a shell line that only prepare the program. Source: chosen by us, from common run scripts."""

_TEST_RUNNERS = ("pytest", "py.test", "unittest")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_MAX_DEPTH = 12


@dataclass(frozen=True)
class Program:
    """The program that a command runs.

    Args:
        script: Its name in the notebook: path relative to the code's top folder, `-m` and a module that is no file
            here, `python -c`, or the name of a program.
        kind: "python", "module", "inline", "notebook", "shell" or "program".
        path: The program's file, if there is one.
        launchers: Launchers in front of it, outermost first.
        arguments: Arguments of the program itself.
        folder: The folder in which it starts; a shell line may change it.
        interpreter: The Python interpreter as named on the command line, or "".
    """

    script: str
    kind: str
    folder: Path
    path: Path | None = None
    launchers: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    interpreter: str = ""

    @property
    def home(self) -> Path:
        """The folder of its file; for a program that is no file here, the one in which it starts."""
        return self.folder if self.path is None else self.path.parent

    @property
    def is_missing(self) -> bool:
        """Whether it is a file that is not there; false where a launcher may find it elsewhere, as in a container."""
        named = self.kind in ("python", "notebook") or (self.kind == "shell" and self.script.endswith(".sh"))
        here = self.kind == "notebook" or all(name in LAUNCHERS and LAUNCHERS[name].python for name in self.launchers)
        return self.path is None and named and here and len(self.launchers) < 2


def find_program_file(argv: Sequence[str], cwd: Path) -> Program:
    """Returns the program of a command, behind launchers, interpreters, `env` and shells.

    Args:
        argv: The command; if empty, so is the script.
    """
    program = _resolve_words(list(argv), cwd, 0)
    if program.path is not None and program.folder != cwd:
        return replace(program, script=_display_path(program.path, cwd))
    return program


def capture(context: CaptureContext) -> dict[str, Any]:
    """Returns the facts of the command; the module's docstring lists them."""
    from labbook.probe.redaction.environment_variables import allowed_environment
    from labbook.probe.redaction.structures import redact_argv

    argv = redact_argv(list(context.argv), context.redactor)
    program = find_program_file(argv, context.cwd)
    allowed = allowed_environment(dict(context.environ), tuple(context.config.environment_allow))
    return {
        "argv": argv,
        "line": shlex.join(argv),
        "script": program.script,
        "kind": program.kind,
        "launchers": list(program.launchers),
        "arguments": list(program.arguments),
        "environment": allowed,
        "environment_names": len(context.environ) - len(allowed),
        "environment_set": sorted(name_digest(name) for name in context.environ),
    }


def name_digest(name: str) -> str:
    """Returns a digest of the name of a variable: enough to know later whether it was set, too little to read it."""
    return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]


def _resolve_words(words: list[str], cwd: Path, depth: int) -> Program:
    while words and _ASSIGNMENT.match(words[0]):
        words = words[1:]
    if not words or depth > _MAX_DEPTH:
        return Program("", "program", cwd)
    name, rest = Path(words[0]).name, words[1:]
    if name == "env":
        return _add_launcher("env", _resolve_words(_skip_env_options(rest), cwd, depth + 1))
    if is_python(name):
        return _resolve_python(words[0], rest, cwd, depth)
    if name in _SHELLS:
        return _resolve_shell(name, rest, cwd, depth)
    if name in ("jupyter", "jupyter-nbconvert", "papermill"):
        return _resolve_notebook(words, cwd)
    if name in LAUNCHERS:
        return _resolve_launcher(name, LAUNCHERS[name], rest, cwd, depth)
    if name in _TEST_RUNNERS and (test := _find_test_file(name, rest, cwd)) is not None:
        return _add_launcher(name, _resolve_file([str(test), *rest], cwd))
    return _resolve_file(words, cwd)


def _resolve_launcher(
    name: str, launcher: Launcher, rest: list[str], cwd: Path, depth: int, interpreter: str = ""
) -> Program:
    command, module = unwrap_launcher(launcher, rest)
    if not command:
        return Program(name, "program", cwd, arguments=tuple(rest), interpreter=interpreter)
    if module:
        program = _resolve_module(command, cwd, depth, interpreter)
    elif launcher.python and not is_python(Path(command[0]).name) and not command[0].startswith("-"):
        program = replace(_resolve_file(command, cwd), kind="python")
    else:
        program = _resolve_words(command, cwd, depth + 1)
    if interpreter and not program.interpreter:
        program = replace(program, interpreter=interpreter)
    return _add_launcher(name, program)


def _add_launcher(launcher: str, program: Program) -> Program:
    return replace(program, launchers=(launcher, *program.launchers))


def _skip_env_options(words: list[str]) -> list[str]:
    at = 0
    while at < len(words):
        word = words[at]
        if word in ("-S", "--split-string") and at + 1 < len(words):
            return [*_split_words(words[at + 1]), *words[at + 2 :]]
        if word in ("-u", "--unset", "-C", "--chdir"):
            at += 2
        elif (word.startswith("-") and word != "--") or _ASSIGNMENT.match(word):
            at += 1
        else:
            return words[at + 1 :] if word == "--" else words[at:]
    return []


def _resolve_python(interpreter: str, rest: list[str], cwd: Path, depth: int) -> Program:
    at = 0
    while at < len(rest):
        word = rest[at]
        if word in ("-X", "-W", "--check-hash-based-pycs"):
            at += 2
        elif word.startswith("--") and len(word) > 2:
            at += 1
        elif word == "-" or not word.startswith("-"):
            break
        elif "c" in word[1:] or "m" in word[1:]:
            option = next(c for c in word[1:] if c in "cm")
            attached = word[word.index(option, 1) + 1 :]
            following = ([attached] if attached else []) + rest[at + 1 :]
            if option == "m":
                return _resolve_module(following, cwd, depth, interpreter)
            return Program("python -c", "inline", cwd, arguments=tuple(following[1:]), interpreter=interpreter)
        else:
            at += 1
    if at >= len(rest) or rest[at] == "-":
        return Program("python", "inline", cwd, interpreter=interpreter)
    program = _resolve_file(rest[at:], cwd)
    return replace(program, kind="python", interpreter=interpreter)


def _resolve_module(words: list[str], cwd: Path, depth: int, interpreter: str) -> Program:
    if not words:
        return Program("python -m", "module", cwd, interpreter=interpreter)
    name = words[0]
    if name in LAUNCHERS:
        return _resolve_launcher(name, LAUNCHERS[name], words[1:], cwd, depth, interpreter)
    if name in ("nbconvert", "jupyter", "papermill", "labbook.execute_notebook"):
        return replace(_resolve_notebook(words, cwd), interpreter=interpreter)
    if name in _TEST_RUNNERS and (test := _find_test_file(name, words[1:], cwd)) is not None:
        program = replace(_resolve_file([str(test), *words[1:]], cwd), interpreter=interpreter)
        return _add_launcher(name, program)
    parts = name.split(".")
    for base in (cwd, cwd / "src"):
        for file in (base.joinpath(*parts).with_suffix(".py"), base.joinpath(*parts, "__main__.py")):
            if file.is_file():
                arguments = tuple(words[1:])
                return Program(_display_path(file, cwd), "module", cwd, file, (), arguments, interpreter)
    return Program(f"-m {name}", "module", cwd, None, (), tuple(words[1:]), interpreter)


def _find_test_file(runner: str, words: Sequence[str], cwd: Path) -> Path | None:
    """Returns the file whose tests are run; `None` unless it is one file. unittest takes modules, classes and tests."""
    found: set[Path] = set()
    for word in words:
        parts = word.split(".") if runner == "unittest" and not word.startswith("-") else []
        modules = [cwd.joinpath(*parts[:end]).with_suffix(".py") for end in range(len(parts), 0, -1)]
        files = [file for file in (cwd / word.partition("::")[0], *modules) if file.suffix == ".py" and file.is_file()]
        found.update(files[:1])
    return found.pop() if len(found) == 1 else None


def _resolve_shell(name: str, rest: list[str], cwd: Path, depth: int) -> Program:
    at = 0
    while at < len(rest) and rest[at].startswith(("-", "+")) and rest[at] != "--":
        if rest[at].startswith("-") and not rest[at].startswith("--") and "c" in rest[at]:
            line = next((w for w in rest[at + 1 :] if not w.startswith("-")), "")
            return _add_launcher(name, _resolve_shell_line(line, cwd, depth))
        at += 2 if rest[at] in ("-o", "-O", "+o", "+O", "--rcfile", "--init-file") else 1
    script = rest[at + 1 :] if at < len(rest) and rest[at] == "--" else rest[at:]
    if not script:
        return Program(name, "shell", cwd)
    return replace(_resolve_file(script, cwd), kind="shell")


def _resolve_shell_line(line: str, cwd: Path, depth: int) -> Program:
    """Returns the first Python program of a shell line, or its first command that does not only prepare."""
    first: Program | None = None
    folder = cwd
    for words in _split_commands(line):
        while words and _ASSIGNMENT.match(words[0]):
            words = words[1:]
        if words[:1] == ["cd"] and len(words) > 1:
            folder = folder / _expand_home(words[1])
        if not words or (words[0] in _PREPARING_WORDS and words[1:2] != ["run"]):
            continue
        program = _resolve_words(words, folder, depth + 1)
        if program.kind in ("python", "module", "notebook"):
            return program
        first = first or program
    return first or Program("sh -c", "inline", cwd)


def _split_commands(line: str) -> list[list[str]]:
    commands: list[list[str]] = [[]]
    # The number in `2>&1` is a stream, not an argument.
    words = iter(_split_words(re.sub(r"(?<=\s)\d(?=[<>])", "", line), operators=True))
    for word in words:
        if not word or not set(word) <= set("();<>|&"):
            commands[-1].append(word)
        elif set(word) & set("<>"):
            next(words, None)
        else:
            commands.append([])
    return [c for c in commands if c]


def _split_words(line: str, operators: bool = False) -> list[str]:
    try:
        lexer = shlex.shlex(line.replace("\n", " ; "), posix=True, punctuation_chars=operators)
        lexer.whitespace_split = True
        return list(lexer)
    except ValueError:
        return line.split()


def _resolve_notebook(words: list[str], cwd: Path) -> Program:
    named = [(option, w) for option, w in pairwise(words) if w.endswith(".ipynb") and not w.startswith("-")]
    notebooks = [w for option, w in named if option not in ("-o", "--output")] or [w for _, w in named]
    name = Path(words[0]).name
    if not notebooks:
        return Program(name, "program", cwd, arguments=tuple(words[1:]))
    arguments = tuple(w for w in words[1:] if w != notebooks[0])
    return replace(_resolve_file([notebooks[0], *arguments], cwd), kind="notebook", launchers=(name,))


def _resolve_file(words: list[str], cwd: Path) -> Program:
    """Returns the program named by the first word: a file, or a name to be found on PATH."""
    word = words[0]
    file = cwd / _expand_home(word)
    arguments = tuple(words[1:])
    if file.is_dir() and (file / "__main__.py").is_file():
        return Program(_display_path(file / "__main__.py", cwd), "python", cwd, file / "__main__.py", (), arguments)
    if file.is_file() or "/" in word or word.endswith((".py", ".sh", ".ipynb")):
        path = file if file.is_file() else None
        kind = {".py": "python", ".ipynb": "notebook", ".sh": "shell"}.get(file.suffix, "program")
        return Program(_display_path(file, cwd), kind, cwd, path, (), arguments)
    return Program(Path(word).name, "program", cwd, None, (), arguments)


def _expand_home(word: str) -> str:
    """Expands `~/...`, which only a masked command line contains: a shell has expanded any other one."""
    below_home = word == "~" or word.startswith("~/")
    return os.path.expanduser(word) if below_home else word  # noqa: PTH111 - without a home `Path.expanduser` raises


def _display_path(file: Path, cwd: Path) -> str:
    """Returns the path relative to the repository or the working folder, or only the name."""
    absolute = Path(re.sub(r"/(\./)+", "/", str(file)))
    if ".." in absolute.parts:
        absolute = absolute.resolve()
    for base in (find_repository(absolute.parent), cwd):
        if base is not None and absolute.is_relative_to(base):
            return absolute.relative_to(base).as_posix()
    return absolute.name
