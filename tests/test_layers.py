"""Imports run downward only: agent → memory → vectorstore, and inside each package line by line.

``LINES`` is the house's table. A change that needs a new arrow changes it in the same commit.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

FACES = {
    "vectorstore": {"vectorstore", "vectorstore.sqlite", "vectorstore.testing"},
    "memory": {"memory", "memory.http", "memory.testing"},
    "agent": {"agent", "agent.testing"},
}
MAY_IMPORT = {"vectorstore": set(), "memory": {"vectorstore"}, "agent": {"memory", "vectorstore"}}

# Lowest first. A name is a module or a folder; inside a folder LINES may go on, else its files are one unit each.
# Names on one line do not know each other.
LINES: dict[str, list[set[str]]] = {
    "vectorstore": [
        {"german", "stop_words", "types"},
        {"errors"},
        {"json_values"},
        {"analysis", "bm25", "distance", "filters"},
        {"checking", "filling"},
        {"protocol"},
        {"scanning"},
        {"core", "wrappers"},
        {"sqlite"},
        {"engines", "salvage"},
        {"measuring", "open"},
        {"testing"},
    ],
    "vectorstore.index": [
        {"array_file", "change_log", "entries", "forward", "growing", "ranked", "second_space", "sign_bits", "state"},
        {"ordering", "postings", "products", "sequences", "snapshot"},
        {"selection"},
        {"columns", "matrix", "terms"},
        {"core"},
        {"view"},
        {"namespace"},
    ],
    "vectorstore.sqlite": [
        {"border", "checksums", "component", "filter_sql", "placing", "query", "readable", "transaction", "usage"},
        {"connection", "dictionary", "frame", "rows", "settings", "wiping"},
        {"checks", "creation", "erasure", "examining", "recent", "spaces", "vector_sql", "verification", "writing"},
        {"backups", "compaction", "cores", "opening", "salvaging"},
        {"copying", "migration_copies", "schema"},
        {"reader", "read_pool"},
        {"transactions"},
        {"migrating"},
        {"database"},
        {"ordered"},
    ],
    "vectorstore.wrappers": [{"base", "event"}, {"passing"}, {"observed_view"}, {"observable"}],
    "vectorstore.engines": [
        {"numpy_spaces", "snapshot_file", "sqlite_spaces"},
        {"numpy_snapshots"},
        {"numpy_store", "sqlite_store"},
    ],
    "vectorstore.testing": [
        {"filter_cases", "model", "operations", "suite"},
        {"running", "second_space", "spaces_model"},
        {
            "closing_contract",
            "deleting_contract",
            "fields_contract",
            "filling_contract",
            "filter_contract",
            "following_contract",
            "lasting_contract",
            "namespace_contract",
            "parity",
            "reading_contract",
            "refusing_contract",
            "search_contract",
            "sharing_contract",
            "switching_contract",
            "text_contract",
            "updating_contract",
            "wrapper_contract",
            "writing_contract",
        },
        {"store_contract"},
    ],
    "memory": [
        {"errors"},
        {"image_size", "message_metadata", "messages", "records", "redaction", "secret_checks", "threads"},
        {
            "captions",
            "estimating_counter",
            "lanes",
            "listed",
            "requests",
            "retrying",
            "runtime",
            "scopes",
            "secret_kinds",
            "tiktoken_counter",
            "times",
            "turns",
        },
        {"codec", "http", "receipts", "secret_finding", "tokens", "tool_words"},
        {"storage"},
        {"chunking", "embedders", "forgotten", "policies"},
        {"recall", "short_term", "write"},
        {"erasure"},
        {"pinned", "selecting", "tallying"},
        {"portable"},
        {"erasing", "listing", "moving", "recalling", "reembedding", "revising"},
        {"long_term"},
        {"rag"},
        {"evaluating", "opening"},
        {"testing"},
    ],
    "memory.storage": [
        {"protocol", "retention", "serialise"},
        {"summaries"},
        {"conversation", "rows"},
        {"sqlite_bounds", "tables"},
        {"sqlite_summaries"},
        {"sqlite_messages"},
        {"in_memory", "sqlite"},
    ],
    "memory.policies": [{"protocol"}, {"chain", "keep_all", "newest", "summary"}, {"fixed_window", "token_window"}],
    "memory.embedders": [
        {"bounded", "protocol", "texts", "vectors"},
        {"details", "forgetting", "hashing", "probe", "remote", "space", "static_table"},
        {"cache", "endpoint", "fallback", "function", "local", "word_vectors"},
        {"cache_tables", "cached", "ollama", "openai_compatible"},
    ],
    "memory.chunking": [{"headings", "measure", "protocol"}, {"spans"}, {"markdown", "text"}],
    "memory.forgotten": [{"erasers", "held", "message_marks", "tombstones"}, {"held_tables", "tombstone_tables"}],
    "memory.write": [
        {"checking", "embedded", "embedding_settings", "ids", "operations", "probes", "sensitive", "under_way"},
        {"key_tables", "keys", "operation_tables", "policies", "probe_tables", "trust"},
        {"cleaning", "compared", "embedding", "judging"},
        {"context"},
        {"deriving", "looking", "pending", "versions", "writer"},
        {"closing", "reembedding", "road"},
        {"marking", "remembering"},
        {"correcting", "turns", "undoing"},
        {"completing", "ending", "merging"},
    ],
    "memory.erasure": [
        {
            "allowed",
            "asking",
            "bytes_search",
            "cached_vectors",
            "derived_rows",
            "mentions",
            "message_words",
            "selecting",
            "unreached",
        },
        {"copies"},
        {"plan", "put_aside", "summaries"},
        {"grace"},
        {"forgetting"},
        {"verifying"},
    ],
    "memory.portable": [
        {"report"},
        {"manifest", "room", "versions"},
        {"items"},
        {"reading", "writing"},
        {"believing", "course"},
        {"deciding", "others", "same_model"},
        {"placing"},
        {"importing"},
    ],
    "memory.write.policies": [
        {"calling", "protocol"},
        {"always", "extractor", "judge", "minimum_length", "near_duplicates", "no_secrets"},
    ],
    "memory.retrieval": [
        {"common_words", "folding", "lexicon", "names", "people", "query", "scored"},
        {
            "confidence",
            "cues",
            "fusing",
            "hooks",
            "languages",
            "order",
            "packing",
            "places",
            "reckoned",
            "session_terms",
            "stems",
        },
        {"dates", "settings"},
        {"follow_up", "rows", "stem_vectors", "why_not", "window"},
        {"columns"},
        {"deriving", "index", "packed", "segments"},
        {"segment_tables"},
        {"beside", "following", "question", "standing"},
        {"matching", "signals"},
        {"asked", "candidates", "change", "lead", "matched", "meaning"},
        {"conversation", "documents", "plain"},
        {"options", "reader"},
        {"hooked", "widening"},
        {"recall"},
    ],
    "memory.retrieval.languages": [{"chinese", "german", "spanish"}],
    "memory.evaluation": [{"copying", "intervals", "questions"}, {"evaluate"}],
    "memory.documents": [
        {"documents", "identity", "loaders", "report", "sentences"},
        {"discover", "manifest", "passages"},
        {"cite", "naming", "plan", "sqlite_manifest", "trial"},
        {"kept_documents"},
        {"collection"},
        {"apply", "preparing", "retrieve"},
        {"ingest"},
        {"knowledge_base"},
    ],
    "memory.documents.loaders": [
        {"decoding", "front_matter", "pdf_worker", "protocol", "reading"},
        {"markdown", "pdf", "text"},
        {"registry"},
    ],
    "memory.testing": [
        {
            "chunker_contract",
            "embedder_contract",
            "policy_contract",
            "retention_contract",
            "storage_contract",
            "summary_contract",
            "wrapper_contract",
        }
    ],
    "agent": [
        {"items"},
        {"results"},
        {"errors"},
        {"approval", "backoff", "hooks", "ledger", "reading"},
        {"events"},
        {"scope"},
        {"providers"},
        {"rendering", "summarising"},
        {"storing"},
        {"conversing"},
        {"recalling"},
        {"tools"},
        {"middleware"},
        {"tool_policy"},
        {"dispatch", "structured"},
        {"asking", "choosing", "ordering"},
        {"context"},
        {"loop"},
        {"turn"},
        {"fingerprint", "running"},
        {"agent"},
        {"subagent"},
        {"assistant", "testing"},
    ],
    "agent.providers": [
        {"settings"},
        {"protocol"},
        {"capabilities", "collecting"},
        {"wire"},
        {
            "endpoint_provider",
            "anthropic_events",
            "anthropic_request",
            "ollama_lines",
            "ollama_request",
            "openai_chunks",
            "openai_request",
            "questions",
            "retrying",
        },
        {"anthropic", "ollama", "openai_compatible", "quoting"},
    ],
    "agent.tools": [
        {"docstrings", "protocol", "rooted"},
        {"facets", "schema", "toolset"},
        {"chain", "function"},
        {"calculator", "clock", "files", "knowledge", "memory", "pages"},
    ],
    "agent.middleware": [
        {"protocol"},
        {"approving", "authorising", "circuit_breaker", "logging_calls", "rate_limit", "refusing", "retry", "timeout"},
    ],
    "agent.testing": [
        {"scripted", "shown"},
        {"provider_contract", "wire_server"},
        {"anthropic_server", "ollama_server", "openai_server"},
    ],
    "agent.assistant": [{"endpoints"}, {"config"}, {"wiring"}, {"cli"}],
    "agent.assistant.cli": [
        {"context", "explained", "printable", "shapes"},
        {"opened", "output", "progress", "tables"},
        {"agreeing", "deeds", "failures", "inputs", "named"},
        {"checks", "sensitive", "shown"},
        {
            "ask",
            "changed",
            "chat",
            "config",
            "correct",
            "doctor",
            "documents",
            "export",
            "eval",
            "forget",
            "import_",
            "ingest",
            "memories",
            "recall",
            "reembed",
            "remember",
            "sessions",
            "undo",
            "why_not",
        },
        {"app"},
    ],
}

CODE = ("vectorstore", "memory", "agent")


@dataclass(frozen=True)
class Arrow:
    """One import: who, whom, and where it stands."""

    source: str
    target: str
    line: int


def modules_of(package: Path) -> dict[str, ast.Module]:
    """Return the syntax trees of a package by dotted name."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = [package.name, *path.relative_to(package).with_suffix("").parts]
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def arrows_of(modules: dict[str, ast.Module]) -> Iterator[Arrow]:
    """Yield every import of our own packages, those inside functions too."""
    for name, tree in modules.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                if node.level:
                    yield Arrow(name, "." * node.level + (node.module or ""), node.lineno)
                elif (node.module or "").split(".")[0] in CODE:
                    for alias in node.names:
                        inner = f"{node.module}.{alias.name}"
                        yield Arrow(name, inner if inner in modules else str(node.module), node.lineno)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name.split(".")[0] in CODE:
                        yield Arrow(name, alias.name, node.lineno)


def faults(modules: dict[str, ast.Module]) -> list[str]:
    """Return every arrow that breaks a rule, as a sentence."""
    return list(dict.fromkeys(fault for arrow in arrows_of(modules) if (fault := _fault(arrow, modules))))


def _fault(arrow: Arrow, modules: dict[str, ast.Module]) -> str | None:
    where = f"{arrow.source}:{arrow.line} imports {arrow.target}"
    if arrow.target.startswith("."):
        return f"{where}: imports are absolute"
    own, other = arrow.source.split(".")[0], arrow.target.split(".")[0]
    if own != other:
        if other not in MAY_IMPORT[own]:
            return f"{where}: {own} must not know {other}"
        if arrow.target not in FACES[other]:
            return f"{where}: only the public faces of {other} may be imported"
        return None
    if arrow.source == own:
        return None  # the face gathers its children
    if arrow.target == own:
        return f"{where}: a module never imports the face of the package it stands in"
    return _inside(where, own, arrow.source.split(".")[1:], arrow.target.split(".")[1:], modules)


def _inside(
    where: str, folder: str, source: list[str], target: list[str], modules: dict[str, ast.Module]
) -> str | None:
    if not source:
        return None  # a folder's own face gathers its children
    if not target:
        return f"{where}: a module never imports the face of the folder it stands in"
    if source[0] == target[0]:
        if len(source) == 1 or folder + "." + source[0] not in modules:
            return None
        return _inside(where, f"{folder}.{source[0]}", source[1:], target[1:], modules)
    lines = LINES.get(folder)
    if lines is None:
        return f"{where}: {folder} has no table of lines"
    ranks = {name: rank for rank, line in enumerate(lines) for name in line}
    for name in (source[0], target[0]):
        if name not in ranks:
            return f"{where}: {folder}.{name} stands on no line"
    if ranks[target[0]] < ranks[source[0]]:
        return None
    return f"{where}: {target[0]} is not below {source[0]}"


@cache
def parsed() -> dict[str, ast.Module]:
    return {name: tree for package in CODE for name, tree in modules_of(ROOT / package).items()}


def all_modules() -> dict[str, ast.Module]:
    return dict(parsed())


def test_every_import_points_down() -> None:
    assert faults(all_modules()) == []


def test_the_table_names_no_module_that_is_gone() -> None:
    modules = all_modules()
    named = {f"{folder}.{name}" for folder, lines in LINES.items() for line in lines for name in line}
    assert named - set(modules) == set()


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("vectorstore.types", "from memory import Message"),
        ("vectorstore.types", "def f():\n    import agent"),
        ("memory.long_term", "from vectorstore.types import Entry"),
        ("memory.long_term", "from agent import Agent"),
        ("memory.long_term", "from memory import Message"),
        ("memory.long_term", "from .messages import Message"),
        ("vectorstore.errors", "from vectorstore.open import open_store"),
        ("vectorstore.engines.numpy_store", "from vectorstore.engines.sqlite_store import SqliteStore"),
        ("vectorstore.distance", "from vectorstore.filters import parse"),
        ("vectorstore.newcomer", "from vectorstore.types import Entry"),
        ("agent.agent", "from memory.long_term import LongTermMemory"),
        ("agent.agent", "def f():\n    from vectorstore.engines.sqlite_store import SqliteStore"),
    ],
)
def test_a_planted_fault_is_caught(module: str, code: str) -> None:
    modules = all_modules()
    modules[module] = ast.parse(code)
    assert len(faults(modules)) == 1


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("memory.long_term", "from vectorstore import Entry"),
        ("memory.long_term", "from vectorstore.sqlite import Database"),
        ("agent.agent", "from memory import Message"),
        ("vectorstore.open", "def f():\n    from vectorstore.engines.sqlite_store import SqliteStore"),
    ],
)
def test_a_downward_import_is_no_fault(module: str, code: str) -> None:
    modules = all_modules()
    modules[module] = ast.parse(code)
    assert faults(modules) == []
