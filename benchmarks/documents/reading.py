"""Speed of reading files, beside a plain pipeline on Chroma, and the text that is kept, beside the usual converters.

The plain pipeline does what a tutorial does: text of each file, windows of 1,000 characters, the same embedder (that of
passages) in batches of 256, ``collection.add``. Extraction is judged by words: the share of the words of a reference
that a reader finds (recall), and of its own words that stand there too (precision), both as multisets.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tellback.memory import KnowledgeBase, local_embedder, open_memory
from tellback.memory.documents.loaders.html import HtmlLoader
from tellback.memory.documents.loaders.pdf import PdfLoader
from tellback.memory.embedders.protocol import passage_embedder

_WORD = re.compile(r"\w+")
_BATCH = 256
_FILES = 200
"""Files of a documentation that the two pipelines read."""
_NOTES, _LEAST_NOTE, _MOST_NOTE = 1_000, 2_000, 6_000
"""Markdown files, and the characters that each has at least and at most."""
_JUDGED = 40
"""Files whose text is compared."""


class Speed(NamedTuple):
    """Ingest of a pipeline: *files*, *chunks*, wall time and CPU time in seconds."""

    pipeline: str
    files: int
    chunks: int
    seconds: float
    cpu: float


class Extraction(NamedTuple):
    """Words that *reader* shares with *reference*, over *files*; shares of multisets."""

    reader: str
    reference: str
    files: int
    recall: float
    precision: float


def measure_speed(folder: Path, work: Path) -> list[Speed]:
    """Return the ingest of the first HTML files of *folder* by us and by the plain pipeline, if Chroma is installed.

    Behind them that of 1,000 Markdown files made of the same pages, and the same again when nothing changed.
    """
    files = sorted(folder.rglob("*.html"))[:_FILES]
    notes = work / "notes"
    _write_notes(sorted(folder.rglob("*.html")), notes)
    speeds = (
        _ours(files, work / "speed.db", "tellback"),
        _chroma(files, work),
        _ours([notes], work / "notes.db", "tellback, 1,000 Markdown files"),
        _ours([notes], work / "notes.db", "tellback, again"),
    )
    return [speed for speed in speeds if speed is not None]


def measure_extraction(html: Path, pdf: Path) -> list[Extraction]:
    """Return how much text the readers find: of HTML against pandoc, html2text and ours, of PDF against pdftotext."""
    files = [file for file in sorted(html.rglob("*.html")) if not file.name.startswith(("genindex", "py-modindex"))]
    chosen = files[:: max(1, len(files) // _JUDGED)][:_JUDGED]
    ours = [_words(HtmlLoader().load(file.read_bytes(), file.name).text) for file in chosen]
    extractions = []
    for name, command in (
        ("pandoc", ["pandoc", "-f", "html", "-t", "plain", "--wrap=none"]),
        ("html2text", ["html2text", "-nobs", "-utf8"]),
    ):
        if shutil.which(name):
            extractions.append(
                _compare("tellback", ours, name, [_words(_run([*command, str(file)])) for file in chosen])
            )
    if shutil.which("pdftotext"):
        text = PdfLoader().load(pdf.read_bytes(), pdf.name).text
        extractions.append(
            _compare("tellback", [_words(text)], "pdftotext", [_words(_run(["pdftotext", str(pdf), "-"]))])
        )
    return extractions


def _write_notes(pages: Sequence[Path], folder: Path) -> None:
    """Write the sections of *pages* as Markdown files, 1,000 of 2,000 to 6,000 characters, with yesterday's time."""
    folder.mkdir(exist_ok=True)
    yesterday, written = time.time() - 86_400, 0
    for page in pages:
        text = HtmlLoader().load(page.read_bytes(), page.name).text
        for start in range(0, len(text) - _LEAST_NOTE, _MOST_NOTE):
            path = folder / f"{written:04}.md"
            path.write_text(text[start : start + _MOST_NOTE], "utf-8")
            os.utime(path, (yesterday, yesterday))
            written += 1
            if written == _NOTES:
                return


def _ours(paths: Sequence[Path], memory_file: Path, name: str) -> Speed:
    counts: list[int] = []

    async def ingest() -> int:
        async with open_memory(memory_file) as memory:
            report = await KnowledgeBase(memory).ingest(paths)
            counts.append(len(report.lines))
            return report.chunks

    chunks, seconds, cpu = _timed(lambda: asyncio.run(ingest()))
    return Speed(name, counts[0], chunks, seconds, cpu)


def _chroma(files: Sequence[Path], work: Path) -> Speed | None:
    try:
        import chromadb
    except ImportError:
        return None
    local = local_embedder()
    if local is None:
        return None
    embedder = passage_embedder(local)

    def ingest() -> int:
        client = chromadb.PersistentClient(str(work / "chroma"))
        collection: Any = client.create_collection("documents", embedding_function=None)
        texts, sources = [], []
        for file in files:
            text = HtmlLoader().load(file.read_bytes(), file.name).text
            windows = [window for start in range(0, len(text), 1000) if (window := text[start : start + 1000].strip())]
            texts += windows
            sources += [{"source": file.name}] * len(windows)
        for start in range(0, len(texts), _BATCH):
            batch = texts[start : start + _BATCH]
            vectors = asyncio.run(embedder.embed(batch))
            collection.add(
                ids=[str(start + number) for number in range(len(batch))],
                embeddings=[list(map(float, vector)) for vector in vectors],
                documents=batch,
                metadatas=sources[start : start + _BATCH],
            )
        return len(texts)

    chunks, seconds, cpu = _timed(ingest)
    return Speed(f"Chroma {chromadb.__version__}, plain", len(files), chunks, seconds, cpu)


def _timed(work: Callable[[], int]) -> tuple[int, float, float]:
    began, cpu = time.perf_counter(), _cpu()
    count = work()
    return count, time.perf_counter() - began, _cpu() - cpu


def _cpu() -> float:
    """Return the CPU time of this process and its finished children, in seconds."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _compare(reader: str, ours: Sequence[Counter[str]], reference: str, theirs: Sequence[Counter[str]]) -> Extraction:
    shared = sum((mine & other).total() for mine, other in zip(ours, theirs, strict=True))
    return Extraction(
        reader,
        reference,
        len(ours),
        shared / max(1, sum(other.total() for other in theirs)),
        shared / max(1, sum(mine.total() for mine in ours)),
    )


def _words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text.casefold()))


def _run(command: Sequence[str]) -> str:
    result = subprocess.run(command, capture_output=True, check=True)
    return result.stdout.decode("utf-8", "replace")
