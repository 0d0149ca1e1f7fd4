"""The loader of a loop, and how programs name inputs and labels: for rules about data and metrics."""

from __future__ import annotations

import ast
import re

from labbook.review.call_syntax import is_call
from labbook.review.code_index import Code, Kind
from labbook.review.source_file import Source

LOADERS = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader", "paddle.io.DataLoader")
_PARTS = r"(?:train|val|valid|test)"
LABELS = re.compile(rf"(?P<part>(?:{_PARTS}_)?)(?:y|ys|labels?|targets?)(?P<end>(?:_?{_PARTS})?)", re.IGNORECASE)
INPUTS = re.compile(
    rf"(?P<part>(?:{_PARTS}_)?)(?:x|xs|data|images?|imgs?|features?|inputs?|samples?|texts?|sentences?)"
    rf"(?P<end>(?:_?{_PARTS})?)",
    re.IGNORECASE,
)


def find_loader(code: Code, source: Source, node: ast.expr) -> Kind | None:
    """Return the loader that is iterated, or `None`."""
    while is_call(node, "enumerate", "tqdm", "iter", "track") and node.args:
        node = node.args[0]
    kind = code.kind(source, node)
    return kind if kind is not None and kind.name in LOADERS else None
