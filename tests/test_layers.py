"""Imports run downward only: agent → memory → vectorstore, and inside each package folder by folder."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import tellback

ROOT = Path(tellback.__file__).parent
"""The folder of the three packages: the checkout, or the installed package."""
TESTS = Path(__file__).parent

FACES = {
    "vectorstore": {
        "vectorstore",
        "vectorstore.internals",
        "vectorstore.postgres",
        "vectorstore.sqlite",
        "vectorstore.testing",
    },
    "memory": {"memory", "memory.internals", "memory.http", "memory.jobs", "memory.onnx", "memory.testing"},
    "agent": {"agent", "agent.callables", "agent.durable", "agent.mcp", "agent.testing"},
}
SHARED = {"vectorstore.lazy_face", "vectorstore.persisted_names"}
"""Modules that know nothing of a store: each package may import them."""
MAY_IMPORT = {"vectorstore": set(), "memory": {"vectorstore"}, "agent": {"memory", "vectorstore"}}

# Lowest first: folders of a package, and those of its own modules that stand above a folder. Its other modules are
# the package's values and lie below all of its folders. Folders on one line do not know each other.
LAYERS: dict[str, list[set[str]]] = {
    "vectorstore": [
        {"index"},
        {"sqlite"},
        {"postgres"},
        {"engines", "testing"},
        {"internals", "open"},
    ],
    "memory": [
        {"http", "retrieval.languages", "secrets", "tokens"},
        {"analysis", "chunking", "history"},
        {"currency"},
        {"documents.loaders", "embedders", "entry_store", "tables", "write.policies"},
        {"onnx", "retrieval.index", "write"},
        {"erasure", "retrieval.scoring"},
        {"export_import", "retrieval"},
        {"list_query", "pinned"},
        {"long_term"},
        {"documents", "evaluation", "testing"},
        {"jobs"},
        {"open"},
    ],
    "agent": [
        {"providers"},
        {"structured_output", "usage"},
        {"events"},
        {"turn_store"},
        {"context"},
        {"desk"},
        {"callables", "testing", "tools"},
        {"middleware"},
        {"tool_executor"},
        {"loop"},
        {"configuration"},
        {"run"},
        {"agent"},
        {"durable_run", "mcp", "subagent"},
        {"durable"},
        {"assistant"},
        {"assistant.clients", "assistant.resident"},
        {"assistant.conversation", "assistant.hooks", "assistant.importers"},
        {"assistant.server.proxy"},
        {"assistant.server"},
        {"assistant.server.page"},
        {"assistant.cli"},
        {"assistant.cli.conversation"},
    ],
}

CODE = ("vectorstore", "memory", "agent")
IMPORT = re.compile(
    r"^[ \t]*(from [\w.]+ import (?:\([^)]*\)|.*)|import [\w.]+(?: as \w+)?(?:, .*| *#.*)?)$", re.MULTILINE
)


@dataclass(frozen=True)
class Arrow:
    """One import: importing module, imported module, and place."""

    source: str
    target: str
    line: int


def module_names() -> dict[str, Path]:
    """Return the files of the three packages by the dotted names of their modules."""
    found = {}
    for path in sorted(path for package in CODE for path in (ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def arrows_of(modules: dict[str, ast.Module], sources: Iterable[str] = ()) -> Iterator[Arrow]:
    """Yield every import of our own packages, those inside functions too; of all modules or of *sources*.

    Modules are named without ``tellback.``, as their folders are.
    """
    for name in sources or modules:
        for node in _imports_in(modules[name]):
            if isinstance(node, ast.ImportFrom):
                if node.level:
                    yield Arrow(name, "." * node.level + (node.module or ""), node.lineno)
                elif (node.module or "").split(".")[0] == "tellback":
                    for alias in node.names:
                        inner = f"{node.module}.{alias.name}".removeprefix("tellback.")
                        yield Arrow(name, inner if inner in modules else inner.rpartition(".")[0], node.lineno)
            else:
                for alias in node.names:
                    if alias.name.startswith("tellback."):
                        yield Arrow(name, alias.name.removeprefix("tellback."), node.lineno)


def _imports_in(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports of a module, class, function or block; expressions, which hold none, are not walked."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for statement in getattr(node, field, ()):
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                yield statement
            else:
                yield from _imports_in(statement)


def faults(modules: dict[str, ast.Module], *sources: str) -> list[str]:
    """Return every arrow that breaks a rule, as a sentence; of all modules or of *sources*."""
    return list(dict.fromkeys(fault for arrow in arrows_of(modules, sources) if (fault := _fault(arrow, modules))))


def _fault(arrow: Arrow, modules: dict[str, ast.Module]) -> str | None:
    where = f"{arrow.source}:{arrow.line} imports {arrow.target}"
    if arrow.target.startswith("."):
        return f"{where}: imports are absolute"
    own, other = arrow.source.split(".")[0], arrow.target.split(".")[0]
    if own != other:
        if other not in MAY_IMPORT[own]:
            return f"{where}: {own} must not know {other}"
        if arrow.target not in FACES[other] | SHARED:
            return f"{where}: only the public faces of {other} may be imported"
        return None
    if arrow.source == own:
        return None  # the face gathers its children
    if arrow.target in (own, f"{own}.internals"):
        return f"{where}: a module never imports the face of the package it stands in"
    return _inside(where, own, _layer(arrow.source), _layer(arrow.target))


def _layer(module: str) -> str:
    """Return the folder that holds *module*, or its own name where it lies in the package itself."""
    package, _, name = module.partition(".")
    return name if name in folders(package) else name.rpartition(".")[0] or name


def _inside(where: str, package: str, source: str, target: str) -> str | None:
    if source == target:
        return None
    ranks = {name: rank for rank, line in enumerate(LAYERS[package], start=1) for name in line}
    for name in (source, target):
        if name in folders(package) and name not in ranks:
            return f"{where}: {package}/{name} stands on no line"
    if ranks.get(target, 0) < ranks.get(source, 0) or (source not in ranks and target not in ranks):
        return None
    return f"{where}: {target} is not below {source}"


@cache
def folders(package: str) -> frozenset[str]:
    """Return the folders of a package by dotted name, without the package's own."""
    return frozenset(
        ".".join(path.parent.relative_to(ROOT / package).parts) for path in (ROOT / package).rglob("*/*.py")
    ) - {""}


@cache
def all_modules() -> dict[str, ast.Module]:
    return {name: ast.parse(imports_alone(path.read_text(encoding="utf-8"))) for name, path in module_names().items()}


def imports_alone(code: str) -> str:
    """Return *code* with its import statements alone, each where it stood: parsing all of it takes seconds."""
    lines = [""] * (code.count("\n") + 1)
    for found in IMPORT.finditer(code):
        first, statement = code.count("\n", 0, found.start(1)), found[1].split("\n")
        lines[first : first + len(statement)] = statement
    return "\n".join(lines)


def with_module(name: str, code: str) -> dict[str, ast.Module]:
    """Return *code* as the module *name* beside all others, of which only the names are needed."""
    return {**dict.fromkeys(module_names(), ast.parse("")), name: ast.parse(imports_alone(code))}


def test_every_import_points_down_and_none_is_in_a_circle() -> None:
    modules = all_modules()
    assert faults(modules) == []
    assert circles(modules) == set()


def test_a_planted_circle_is_found_where_one_import_is_inside_a_function() -> None:
    modules = {
        "memory.a": ast.parse("from tellback.memory.b import B"),
        "memory.b": ast.parse("def f():\n    from tellback.memory.c import C"),
        "memory.c": ast.parse("import tellback.memory.a"),
        "memory.d": ast.parse("from tellback.memory.a import A"),
    }
    assert circles(modules) == {frozenset({"memory.a", "memory.b", "memory.c"})}


def circles(modules: dict[str, ast.Module]) -> set[frozenset[str]]:
    """Return the sets of modules that reach each other by imports, those inside functions too."""
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for arrow in arrows_of(modules):
        if arrow.target != arrow.source and arrow.target in modules:
            graph[arrow.source].add(arrow.target)
    reached = {name: _reached(name, graph) for name in graph}
    found = {frozenset(other for other in reached[name] if name in reached[other]) for name in graph}
    return found - {frozenset()}


def _reached(name: str, graph: dict[str, set[str]]) -> set[str]:
    """Return the modules that *name* reaches by imports; itself only where it is in a circle."""
    reached: set[str] = set()
    ahead = list(graph[name])
    while ahead:
        if (module := ahead.pop()) not in reached:
            reached.add(module)
            ahead += graph[module] - reached
    return reached


def test_the_layer_table_names_only_existing_modules() -> None:
    named = {f"{package}.{name}" for package, lines in LAYERS.items() for line in lines for name in line}
    assert named - module_names().keys() == set()


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("vectorstore.types", "from tellback.memory import Message"),
        ("vectorstore.types", "def f():\n    import tellback.agent"),
        ("vectorstore.types", "if True:\n    import json, tellback.agent  # late"),
        ("memory.long_term", "from tellback.vectorstore.types import Entry"),
        ("memory.long_term", "from tellback.agent import Agent"),
        ("memory.long_term", "from tellback.memory import Message"),
        ("memory.long_term", "from tellback.memory.internals import Clock"),
        ("memory.long_term", "from .messages import Message"),
        ("vectorstore.errors", "from tellback.vectorstore.open import open_store"),
        ("vectorstore.index.bm25", "from tellback.vectorstore.sqlite.schema import m001_tables"),
        ("memory.history.codec", "from tellback.memory.tables.tombstones import Tombstones"),
        ("agent.agent", "from tellback.memory.long_term import LongTermMemory"),
        ("agent.agent", "def f():\n    from tellback.vectorstore.engines.sqlite_store import SqliteStore"),
    ],
)
def test_the_layer_check_finds_a_planted_upward_import(module: str, code: str) -> None:
    assert len(faults(with_module(module, code), module)) == 1


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("memory.long_term", "from tellback.vectorstore import Entry"),
        ("memory.long_term", "from tellback.vectorstore.sqlite import Database"),
        ("agent.agent", "from tellback.memory import Message"),
        ("vectorstore.open", "def f():\n    from tellback.vectorstore.engines.sqlite_store import SqliteStore"),
    ],
)
def test_a_downward_import_is_no_fault(module: str, code: str) -> None:
    assert faults(with_module(module, code), module) == []


def _inner_imports(tree: ast.Module) -> set[str]:
    faces = set().union(*FACES.values())
    imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level}
    modules = {name.removeprefix("tellback.") for name in imported if name.startswith("tellback.")}
    application = ("agent.assistant",)  # the command line has no face beside its modules
    return {name for name in modules - faces if name.split(".")[0] in CODE and not name.startswith(application)}


@pytest.mark.slow
def test_tests_import_from_faces_or_name_the_inner_parts_in_their_docstring() -> None:
    unnamed = []
    for path in sorted(TESTS.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        named = ast.get_docstring(tree) or ""
        unnamed += [f"{path.name}: {name}" for name in _inner_imports(tree) if f"``tellback.{name}``" not in named]
    assert unnamed == []
