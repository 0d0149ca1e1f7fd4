"""Results of the checks: dataclasses that print as tables and convert to Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field


class Text(str):
    """An English sentence with values, which an entry can say in another language.

    Args:
        template: The sentence, with `{name}` for each value. Its translations are in
            `templates/words/messages/<language>_texts.toml`, with the template as key.
        values: Texts, numbers and further sentences.
    """

    def __new__(cls, template: str, /, **values: object) -> Text:
        """The sentence with its values."""
        made = super().__new__(cls, template.format(**values))
        made.template, made.values = template, values
        return made

    template: str
    values: dict[str, object]

    @staticmethod
    def message(text: object) -> object:
        """The form in `run.json`: a text, or a template with its values."""
        if not isinstance(text, Text):
            return str(text)
        return {"text": text.template, "values": {name: Text.message(value) for name, value in text.values.items()}}


VERDICTS = ("ok", "note", "warn", "fail")
"""Verdicts, least serious first."""


@dataclass(frozen=True)
class Result:
    """The result of a check.

    Args:
        verdict: "ok", "note", "warn" or "fail": the worst of its rows.
        summary: One sentence.
    """

    title: str
    verdict: str
    summary: str

    kind = "result"

    @property
    def ok(self) -> bool:
        """Whether the verdict is not "fail"."""
        return self.verdict != "fail"

    def columns(self) -> list[str]:
        """Names of the columns of the table."""
        return []

    def cells(self) -> list[list[str]]:
        """The table, row by row."""
        return []

    def markdown(self) -> str:
        """Format the result as Markdown: a sentence and a table."""
        lines = [f"**{_escape_cell(self.title)}**: {self.verdict}. {_escape_cell(self.summary)}", ""]
        columns = self.columns()
        if columns and self.cells():
            lines += ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
            lines += ["| " + " | ".join(_escape_cell(cell) for cell in row) + " |" for row in self.cells()]
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        head = f"{self.title}: {self.verdict}. {self.summary}"
        rows = self.cells()
        return head + "\n" + _table([self.columns(), *rows]) if rows else head


@dataclass(frozen=True)
class Row:
    """One row of a checklist; `detail` is the advice."""

    check: str
    expected: str
    observed: str
    verdict: str
    detail: str = ""


@dataclass(frozen=True)
class Checklist(Result):
    """Result of `checklist`; `error` is the exception of the model or the loss, if there was one."""

    rows: tuple[Row, ...] = ()
    error: Exception | None = None

    kind = "checklist"

    def columns(self) -> list[str]:
        """Names of the columns of the table."""
        return ["check", "expected", "observed", "verdict"]

    def cells(self) -> list[list[str]]:
        """The table, row by row; advice is appended to the observation."""
        both = "{observed}; {detail}"
        seen = [Text(both, observed=r.observed, detail=r.detail) if r.detail else r.observed for r in self.rows]
        return [[r.check, r.expected, cell, r.verdict] for r, cell in zip(self.rows, seen, strict=True)]

    def row(self, check: str) -> Row:
        """Return the row of a check.

        Raises:
            KeyError: There is no such row.
        """
        for row in self.rows:
            if row.check == check:
                return row
        raise KeyError(check)


@dataclass(frozen=True)
class Overfit(Result):
    """Result of `overfit_one_batch`.

    Args:
        losses: Loss of each step of the best attempt.
        accuracy: Final share of correctly classified samples, `None` without classes.
        rate: Learning rate of the attempt, `None` for the user's optimizer.
    """

    losses: tuple[float, ...] = ()
    accuracy: float | None = None
    rate: float | None = None

    kind = "overfit_one_batch"

    @property
    def reached(self) -> bool:
        """Whether the batch was learned."""
        return self.verdict == "ok"

    def columns(self) -> list[str]:
        """Names of the columns of the table."""
        return ["step", "loss"]

    def cells(self) -> list[list[str]]:
        """About ten steps, including the first and the last."""
        if not self.losses:
            return []
        last = len(self.losses) - 1
        shown = sorted({0, last, *(round(last * part / 10) for part in range(11))})
        return [[str(step + 1), number(self.losses[step])] for step in shown]


@dataclass(frozen=True)
class GradCheck(Result):
    """Result of `gradcheck`; `errors` are the largest differences by input, relative to the larger gradient."""

    errors: tuple[tuple[str, str, int, float, str], ...] = ()

    kind = "gradcheck"

    def columns(self) -> list[str]:
        """Names of the columns of the table."""
        return ["input", "shape", "elements checked", "largest error", "verdict"]

    def cells(self) -> list[list[str]]:
        """The table, row by row."""
        return [[name, shape, str(count), number(error), verdict] for name, shape, count, error, verdict in self.errors]


@dataclass(frozen=True)
class Layer:
    """Output statistics of one call of a layer."""

    name: str
    type: str
    shape: tuple[int, ...]
    dtype: str
    low: float
    high: float
    mean: float
    std: float
    zero: float
    bad: int


@dataclass(frozen=True)
class Trace(Result):
    """Result of `trace`: the layers in the order of their calls."""

    layers: tuple[Layer, ...] = field(default=())

    kind = "trace"

    def columns(self) -> list[str]:
        """Names of the columns of the table."""
        return ["layer", "type", "shape", "dtype", "min", "max", "mean", "std", "zeros", "not finite"]

    def cells(self) -> list[list[str]]:
        """The table, row by row."""
        return [
            [
                layer.name or "(model)", layer.type, shape_text(layer.shape), layer.dtype, number(layer.low),
                number(layer.high), number(layer.mean), number(layer.std), f"{layer.zero * 100:.3g} %", str(layer.bad),
            ]
            for layer in self.layers
        ]  # fmt: skip


def most_serious(verdicts: Sequence[str]) -> str:
    """Return the most serious verdict; "ok" for none."""
    return max(verdicts, key=VERDICTS.index, default="ok")


def number(value: float | None) -> str:
    """Format a number with four digits; "-" for `None`."""
    if value is None:
        return "-"
    if math.isnan(value):
        return "NaN"
    if value == int(value) if math.isfinite(value) else False:
        return str(int(value)) if abs(value) < 1e7 else f"{value:.4g}"
    return f"{value:.4g}"


def shape_text(shape: Sequence[int]) -> str:
    """Format a shape as `32x3x8x8`; "scalar" for an empty one."""
    return "x".join(str(n) for n in shape) or "scalar"


def names_text(names: Sequence[str]) -> str:
    """Join names; the first five are listed."""
    shown = ", ".join(names[:5])
    return Text("{names} and {more} more", names=shown, more=len(names) - 5) if len(names) > 5 else shown


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _escape_cell(text: str) -> str:
    for char in "\\`*_{}[]<>|#":
        text = text.replace(char, f"&#{ord(char)};")
    return " ".join(text.split())
