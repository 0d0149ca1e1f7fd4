"""Finds how a script takes its options: `--lr=0.1` (argparse and most others) or `lr=0.1` (Hydra); never runs it."""

from __future__ import annotations

import ast
from pathlib import Path

from labbook.frozen import dataclass
from labbook.model.run_fields import field_key
from labbook.sweep.trial_grid import Trial

STYLES = ("auto", "dashes", "equals")
_EQUALS = {"hydra", "hydra_zen", "sacred"}
"""Packages whose programs take `key=value`."""


@dataclass(frozen=True)
class OptionStyle:
    """How a script takes its options.

    Args:
        equals: Whether it takes `key=value`.
        names: Options as they are in the script, without the two dashes, by their `field_key`.
    """

    equals: bool
    names: dict[str, str]

    def words(self, trial: Trial) -> list[str]:
        """Returns the options of a trial as words of a command line."""
        if self.equals:
            return [f"{name}={value}" for name, value in trial]
        # With an equals sign, so that a negative value is no option.
        return [f"--{self.names.get(field_key(name), name)}={value}" for name, value in trial]


def find_style(script: Path, chosen: str = "auto") -> OptionStyle:
    """Returns the style of a script.

    Args:
        chosen: One of `STYLES`; "auto" reads the script.
    """
    try:
        tree = ast.parse(script.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        tree = ast.Module([], [])
    imported: set[str] = set()
    names: dict[str, str] = {}
    equals = False
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            imported.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("--"):
            # Of Click's `--flag/--no-flag`, the first.
            name = node.value[2:].partition("/")[0].strip()
            if name and not name.startswith("-"):
                names.setdefault(field_key(name), name)
        elif isinstance(node, ast.Attribute) and node.attr in ("from_cli", "from_dotlist"):
            equals = True
    equals = equals or bool(imported & _EQUALS)
    return OptionStyle(equals if chosen == "auto" else chosen == "equals", names)
