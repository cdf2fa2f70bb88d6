"""Systems that take part, with their packages, their settings, and the reason why some are not measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.memory.data.dataset import DataError

_OURS = "benchmarks.memory.systems"
SHARED = "+shared"
"""Suffix of a system's key where it uses the embedder that all of a run share."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One system with one setting. *packages* have an environment of their own; empty: that of the bench."""

    key: str
    title: str
    place: str = ""
    settings: str = ""
    packages: tuple[str, ...] = ()
    shared: bool = False
    """It asks the embedder that all of a run share."""
    texts: bool = False
    """It embeds texts without date and speaker, too."""
    options: Mapping[str, str] = field(default_factory=dict)
    whole: bool = False
    """It gives everything, and is not cut to equal k and tokens."""
    oracle: bool = False
    not_measured: str = ""
    """Reason why there is no figure of it; it is named, and not run."""


def _own(key: str, title: str, place: str, settings: str, **more: object) -> Entry:
    return Entry(key, title, f"{_OURS}.{place}", settings, **more)  # type: ignore[arg-type]


_LINE = "date, speaker and text in a line"
_SAME = "the embedder that all share; otherwise as its manual says; " + _LINE

_SCRIPTED = "adapter runs, not measured: a model writes what it keeps, and a scripted one has no figures"

ENTRIES: tuple[Entry, ...] = (
    _own("full-context", "Full context", "baselines:FullContext", "everything, uncut", whole=True),
    _own("oracle", "Oracle", "baselines:Oracle", "the evidence by its labels", oracle=True),
    _own("last", "Last n", "baselines:LastItems", "the latest, whatever is asked"),
    _own("random", "Random", "baselines:Chance", "a seeded shuffle"),
    _own("dont-know", "“I don’t know”", "baselines:Silence", "finds nothing, refuses everything"),
    _own("grep", "grep", "baselines:Grep", "most words of the question, latest first; " + _LINE),
    _own("bm25", "BM25", "lexical:Bm25", "k1 .9, b .4, Snowball stems, no stop words; " + _LINE),
    _own("cosine+shared", "Cosine", "dense:Cosine", _SAME, shared=True),
    _own("hybrid+shared", "BM25 and cosine, RRF", "dense:Hybrid", "k 60, a hundred each; " + _SAME, shared=True),
    _own("tellback", "Tellback", "tellback_memory:Tellback", "as it is installed"),
    _own("tellback-lines", "Tellback with recorded lines", "tellback_memory:Tellback",
         "as it is installed; with lines that a model wrote once, where the data has them", options={"lines": "1"}),
    _own("tellback-words", "Tellback without an embedder", "tellback_memory:TellbackWords", "words alone"),
    _own("tellback+shared", "Tellback", "tellback_memory:Tellback", "the embedder that all share, as an unknown one",
         shared=True, texts=True),
    _own("chroma+shared", "Chroma", "chroma:Chroma", _SAME, packages=("chromadb==1.5.9", "openai"), shared=True),
    _own("lancedb", "LanceDB, full text", "lancedb_store:FullText", "its own full-text index; " + _LINE,
         packages=("lancedb==0.40.0", "pandas")),
    _own("lancedb+shared", "LanceDB, hybrid", "lancedb_store:HybridSearch", "its hybrid query, RRF; " + _SAME,
         packages=("lancedb==0.40.0", "pandas"), shared=True),
    _own("langgraph+shared", "LangGraph store", "langgraph_store:LangGraphStore", _SAME,
         packages=("langgraph==1.2.22", "numpy"), shared=True),
    _own("llamaindex", "LlamaIndex, keyword table", "llamaindex_memory:KeywordTable",
         "SimpleKeywordTableIndex; " + _LINE, packages=("llama-index-core==0.14.25",)),
    _own("llamaindex+shared", "LlamaIndex, vector index", "llamaindex_memory:VectorMemory", _SAME,
         packages=("llama-index-core==0.14.25",), shared=True),
    _own("mem0+shared", "mem0, infer=False", "mem0_memory:Mem0", "the items as they are, Qdrant in a folder; " + _SAME,
         packages=("mem0ai==2.2.1",), shared=True),
    _own("mnemosyne", "Mnemosyne", "mnemosyne_memory:Mnemosyne", "its base install, defaults: words; " + _LINE,
         packages=("mnemosyne-memory==3.15.1",)),
    _own("mnemosyne+shared", "Mnemosyne", "mnemosyne_memory:Mnemosyne", _SAME,
         packages=("mnemosyne-memory==3.15.1", "numpy", "sqlite-vec"), shared=True),
    _own("mempalace+shared", "MemPalace", "mempalace_memory:MemPalace", _SAME, packages=("mempalace==3.11.0",),
         shared=True),
    Entry("chroma", "Chroma", not_measured="its default embedder is a model that it downloads"),
    Entry("mempalace", "MemPalace", not_measured="its default embedder is a model that it downloads"),
    Entry("mcp-memory-service", "mcp-memory-service",
          not_measured="12.2 needs a Python whose sqlite3 loads extensions, which this one does not"),
    Entry("langgraph", "LangGraph store", not_measured="without an embedder its search does not rank"),
    Entry("langmem", "LangMem", not_measured="its tools write with a model; what they search is the LangGraph store"),
    Entry("mem0", "mem0", f"{_OURS}.mem0_memory:Mem0Extraction", packages=("mem0ai==2.2.1",), shared=True,
          not_measured=_SCRIPTED),
    Entry("graphiti", "Graphiti", f"{_OURS}.graphiti_memory:GraphitiMemory", shared=True,
          packages=("graphiti-core[kuzu]==0.31.2", "httpx"), not_measured=_SCRIPTED),
    Entry("cognee", "Cognee", f"{_OURS}.cognee_memory:CogneeMemory", packages=("cognee==1.6.5",), shared=True,
          not_measured=_SCRIPTED),
    Entry("hindsight", "Hindsight", not_measured="hindsight-api-slim 1.1.0 installs; its migrations stop on an empty "
          "PostgreSQL 18 with pgvector: relation alembic_version does not exist"),
    Entry("letta", "Letta", not_measured="its Python server was retired: letta 0.34 is a command for coding "
          "agents, and has no memory to call from Python"),
    Entry("memori", "Memori", not_measured="extracts facts with a model of its vendor, and has no way around it"),
    Entry("basic-memory", "basic-memory", not_measured="0.24 needs Python 3.12 or newer, here it is 3.11"),
)  # fmt: skip
"""All systems. Reasons were found by trying, with the versions that are named."""

BY_KEY = {entry.key: entry for entry in ENTRIES}
MEASURED = tuple(entry.key for entry in ENTRIES if not entry.not_measured)
BASELINES = tuple(key for key in MEASURED if not BY_KEY[key].packages)


def entry_of(name: str) -> Entry:
    """Return the entry of *name*: a key, or ``module:Class`` of one's own (``+shared``: with the shared embedder)."""
    if name in BY_KEY:
        return BY_KEY[name]
    place, shared = name.removesuffix(SHARED), name.endswith(SHARED)
    module, _, cls = place.partition(":")
    if not module or not cls:
        raise DataError(f"no system {name}: {', '.join(BY_KEY)}, or module:Class of your own")
    return Entry(place.replace(":", ".") + (SHARED if shared else ""), cls, place, "yours", shared=shared, texts=True)
