"""Building the site: against stock Material for MkDocs on the same notes in the same run, growth, one new entry.

    python -m benchmarks.site            # 1,000 / 3,000 / 10,000 entries; about half an hour, most of it for the stock
    python -m benchmarks.site --quick    # 100 / 300 / 1,000

Processor time is compared, of all processes of a build: other work on the machine hardly changes it. Wall time stands
beside it. The builders take turns.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks._synthetic_notes import write_notes
from labbook.publish.html.theme import EXTENSIONS

_ROUNDS = 2
_PLAIN = "site_name: x\ndocs_dir: notes\nsite_dir: {site}\nuse_directory_urls: false\n"
_THEME = "theme:\n  name: material\n  font: false\n"
_MARKDOWN = json.dumps([{name: options} for name, options in EXTENSIONS.items()])
"""The same Markdown for all: without these an entry is not shown as it is meant."""

_STOCK = (
    f"{_PLAIN}{_THEME}plugins: [search, tags]\nmarkdown_extensions: {_MARKDOWN.replace('{', '{{').replace('}', '}}')}\n"
)
_PRUNED = _STOCK.replace("  font: false\n", "  font: false\n  features: [navigation.prune, navigation.indexes]\n")
_OURS = f"{_PLAIN}{_THEME}plugins: [labbook]\n"


class Cost(NamedTuple):
    """What a build took: processor time and wall time (s), and the largest process (MiB)."""

    cpu_s: float
    wall_s: float
    most_mib: float


def main() -> None:
    """Prints the figures."""
    quick = "--quick" in sys.argv[1:]
    sizes = (100, 300, 1000) if quick else (1000, 3000, 10000)
    with tempfile.TemporaryDirectory() as folder:
        books = {size: _book(Path(folder) / str(size), size) for size in sizes}
        _against_stock(books[sizes[0]], sizes[0])
        grown = {size: _labbook(books[size], "site", "build", "--all") for size in sizes}
        for size, cost in grown.items():
            print(f"{size:>6} entries: {_told(cost)}, {1000 * cost.cpu_s / size:.1f} ms of processor an entry")
        _one_more(books[sizes[-1]], sizes[-1])


def _against_stock(book: Path, size: int) -> None:
    costs: dict[str, list[Cost]] = {"labbook": [], "stock with pruning": [], "stock": []}
    for name, settings in (("stock", _STOCK), ("pruned", _PRUNED)):
        (book / f"{name}.yml").write_text(settings.format(site=f"site-{name}"))
    for _ in range(_ROUNDS):
        costs["labbook"].append(_labbook(book, "site", "build", "--all"))
        costs["stock with pruning"].append(_mkdocs(book, "pruned"))
        costs["stock"].append(_mkdocs(book, "stock"))
    best = {name: min(found) for name, found in costs.items()}
    for name, cost in best.items():
        ratio = (
            "" if name == "labbook" else f"; {cost.cpu_s / best['labbook'].cpu_s:.1f} times labbook's processor time, "
        )
        ratio += "" if name == "labbook" else f"{cost.wall_s / best['labbook'].wall_s:.1f} times its wall time"
        print(f"{size} entries, {name}: {_told(cost)}{ratio}")
    page = next((book / "site" / "runs").rglob("2*-*.html"))
    article = page.read_text().partition("<article")[2].partition("</article>")[0]
    print(f"a page besides its content: {(len(page.read_bytes()) - len(article.encode())) / 1000:.1f} kB")


def _one_more(book: Path, size: int) -> None:
    _labbook(book, "site", "build")
    found = []
    for number in range(3):
        write_notes(book, 1, seed=size + number, now=time.time() + number)
        found.append(_labbook(book, "site", "build"))
    print(f"one entry more on top of {size}, search included: {_told(min(found))}")
    print(f"nothing new on top of {size}: {_told(_labbook(book, 'site', 'build'))}")


def _book(root: Path, size: int) -> Path:
    root.mkdir()
    (root / "labbook.toml").write_text('commit = "off"\n')
    (root / "mkdocs.yml").write_text(_OURS.format(site="site"))
    write_notes(root, size)
    return root


def _labbook(book: Path, *words: str) -> Cost:
    return _run([sys.executable, "-m", "labbook", *words], book)


def _mkdocs(book: Path, name: str) -> Cost:
    # Without the pages of labbook the stock needs a home.
    home = book / "notes" / "index.md"
    home.write_text("# Home\n")
    try:
        return _run([sys.executable, "-m", "mkdocs", "build", "-q", "-f", f"{name}.yml"], book)
    finally:
        home.unlink()
        shutil.rmtree(book / f"site-{name}", ignore_errors=True)


_CHILD = """
import json, resource, subprocess, sys, time
began = time.monotonic()
done = subprocess.run(sys.argv[2:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
open(sys.argv[1], "w").write(json.dumps(
    [used.ru_utime + used.ru_stime, time.monotonic() - began, used.ru_maxrss / 1024, done.returncode]))
sys.stderr.buffer.write(done.stderr[-2000:] if done.returncode else b"")
"""


def _run(command: list[str], book: Path) -> Cost:
    """Runs a build in a process of its own whose children are counted."""
    told = book / "cost.json"
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "true", "PYTHONPATH": str(Path(__file__).parents[1])}
    # All builders run compiled, as they do where they are installed; a checkout may be kept without.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPYCACHEPREFIX"] = str(book.parent / "compiled")
    subprocess.run([sys.executable, "-c", _CHILD, str(told), *command], cwd=book, env=environment, check=True)
    cpu_s, wall_s, most_mib, code = json.loads(told.read_text())
    if code:
        raise SystemExit(f"{' '.join(command)} failed with {code}")
    return Cost(cpu_s, wall_s, most_mib)


def _told(cost: Cost) -> str:
    return f"{cost.cpu_s:.1f} s of processor, {cost.wall_s:.1f} s, largest process {cost.most_mib:.0f} MiB"


if __name__ == "__main__":
    main()
