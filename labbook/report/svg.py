"""Shared parts of the pictures of an entry, which work on light and dark pages and load no other file."""

from __future__ import annotations

import html
from collections.abc import Sequence

from labbook.report.entry.section_limits import shorten_middle

_STYLE = """
:root{--bg:#fff;--edge:#d8dee4;--ink:#1f2328;--soft:#656d76;--grid:#eaeef2;--bad:#cf222e;
--c0:#0969da;--c1:#d1600a;--c2:#1a7f37;--c3:#8250df;--c4:#bf3989;--c5:#0a7e8c;--c6:#9a6700;--c7:#57606a}
@media(prefers-color-scheme:dark){:root{--bg:#0d1117;--edge:#30363d;--ink:#e6edf3;--soft:#8d96a0;--grid:#21262d;--bad:#ff7b72;
--c0:#58a6ff;--c1:#f0883e;--c2:#3fb950;--c3:#bc8cff;--c4:#f778ba;--c5:#39c5cf;--c6:#d29922;--c7:#9ea7b3}}
text{font:11px system-ui,"Segoe UI",Roboto,"Noto Sans CJK SC","Microsoft YaHei",sans-serif;fill:var(--soft)}
.t{font-size:12.5px;font-weight:600;fill:var(--ink)}.v{fill:var(--ink);text-anchor:end}.y{text-anchor:end}.x{text-anchor:middle}
.i{fill:var(--ink)}.p{font-size:11px;font-weight:400;fill:var(--soft)}
.g{stroke:var(--grid);fill:none}.a{stroke:var(--edge);fill:none}
.bad{fill:var(--bad);paint-order:stroke;stroke:var(--bg);stroke-width:3px}
.bl{stroke:var(--bad);stroke-dasharray:3 3;fill:none}
.l{fill:none;stroke-width:1.6;stroke-linejoin:round;stroke-linecap:round}.b{stroke:none;opacity:.16}
""" + "".join(f".s{i}{{stroke:var(--c{i})}}.f{i}{{fill:var(--c{i})}}" for i in range(8))


def frame(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    """Returns a complete SVG picture, on a card with round corners."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" '
        f'role="img"><title>{svg_text(title, 200)}</title><style>{_STYLE}</style>'
        f'<rect x=".5" y=".5" width="{width - 1:.0f}" height="{height - 1:.0f}" rx="8" fill="var(--bg)" '
        'stroke="var(--edge)"/>' + "".join(parts) + "</svg>\n"
    )


def svg_text(text: str, limit: int) -> str:
    """Returns text escaped for an SVG, without characters that XML forbids."""
    clean = "".join(c if c.isprintable() else " " for c in shorten_middle(text, limit))
    return html.escape(clean.encode("utf-8", "replace").decode("utf-8"))
