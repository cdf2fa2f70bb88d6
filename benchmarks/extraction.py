"""``python -m benchmarks extraction FILE…``: how many of the words of another extractor a loader keeps.

PDF is compared with ``pdftotext`` (Debian: poppler-utils), HTML with ``pandoc -t plain`` and ``html2text`` (packages of
these names), whichever are installed. Words are those between white space, each as often as it occurs; running heads,
navigation and marks of Markdown are left out of both sides where they can be told.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from memory.internals import load_document

Say = Callable[[str], None]
_COMMANDS = {
    ".pdf": {"pdftotext": ["pdftotext", "{file}", "-"]},
    ".html": {
        "pandoc": ["pandoc", "-f", "html", "-t", "plain", "--wrap=none", "{file}"],
        "html2text": ["html2text", "-utf8", "-nobs", "{file}"],
    },
}
_EDGES = 2
_MARKS = re.compile(r"^(?:#+|[-*|>]+|```\w*|\d+\.)$")


def add_command(commands: Any) -> None:
    """Add the command to the subparsers of ``python -m benchmarks``."""
    command = commands.add_parser("extraction", help="words kept of PDF and HTML, beside other extractors")
    command.add_argument("files", type=Path, nargs="+")
    command.set_defaults(run=run_extraction)


def run_extraction(given: argparse.Namespace, words: Sequence[str], say: Say) -> int:
    """Print for each file the share of the other's words that is kept, and of our words that the other has, too."""
    for file in given.files:
        began = time.process_time()
        ours = load_document(file.read_bytes(), file.name).text
        seconds = time.process_time() - began
        say(f"{file.name}: {len(ours.split()):,} words, {seconds:.2f} s of CPU besides the worker")
        for name, command in _COMMANDS.get(file.suffix, {}).items():
            if shutil.which(command[0]) is None:
                say(f"  {name} is not installed")
                continue
            filled = [part.format(file=file) for part in command]
            theirs = subprocess.run(filled, capture_output=True, check=True).stdout.decode("utf-8", "replace")
            kept, shared = shares(_words(ours), _words(without_heads(theirs)))
            say(f"  {name}: {kept:.4f} of its words kept, {shared:.4f} of ours are its")
    return 0


def shares(ours: Sequence[str], theirs: Sequence[str]) -> tuple[float, float]:
    """Return the multiset share of *theirs* that is in *ours*, and of *ours* that is in *theirs*."""
    common = sum((Counter(ours) & Counter(theirs)).values())
    return common / max(len(theirs), 1), common / max(len(ours), 1)


def without_heads(text: str) -> str:
    """Return *text* without the lines at the edges of its pages that, numbers aside, stand on a tenth of them."""
    pages = [[line for line in page.split("\n") if line.strip()] for page in text.split("\f")]
    if len(pages) < 10:
        return text
    edges = Counter(re.sub(r"\d+", "0", line.strip()) for page in pages for line in {*page[:_EDGES], *page[-_EDGES:]})
    kept = []
    for page in pages:
        for index, line in enumerate(page):
            at_edge = index < _EDGES or index >= len(page) - _EDGES
            if not (at_edge and edges[re.sub(r"\d+", "0", line.strip())] >= len(pages) / 10):
                kept.append(line)
    return "\n".join(kept)


def _words(text: str) -> list[str]:
    return [word for word in text.replace("`", "").split() if not _MARKS.match(word)]
