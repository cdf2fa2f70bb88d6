"""The public faces: each name of ``__all__`` is listed once per table, documented, and imported only when used."""

from __future__ import annotations

import ast
import importlib
import inspect
import pydoc
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LAZY_FACES = [
    "tellback.vectorstore",
    "tellback.vectorstore.internals",
    "tellback.vectorstore.testing",
    "tellback.memory",
    "tellback.memory.internals",
    "tellback.memory.http",
    "tellback.memory.jobs",
    "tellback.memory.onnx",
    "tellback.agent",
    "tellback.agent.mcp",
    "tellback.agent.testing",
]
FACES = [
    *LAZY_FACES,
    "tellback.vectorstore.postgres",
    "tellback.vectorstore.sqlite",
    "tellback.memory.testing",
    "tellback.agent.callables",
    "tellback.agent.durable",
]
LIMITS = {"tellback.vectorstore": 60, "tellback.memory": 90, "tellback.agent": 70, "tellback.memory.internals": 100}
"""How many names a face may have: those that programs import, and the internal one."""
ERROR_FACES = {"vectorstore": ["tellback.vectorstore"], "memory": ["tellback.memory", "tellback.memory.http"]}
"""Where the errors of a package are public: those of its HTTP client in the client's own face."""


@pytest.mark.parametrize("face", FACES)
def test_dunder_all_of_a_face_is_sorted_without_repeats(face: str) -> None:
    names = importlib.import_module(face).__all__
    assert list(names) == sorted(set(names))


@pytest.mark.parametrize("face", FACES)
def test_every_public_name_exists_and_has_a_docstring(face: str) -> None:
    module = importlib.import_module(face)
    undocumented = [
        name
        for name in module.__all__
        if callable(value := getattr(module, name))
        and isinstance(value, (type, types.FunctionType))
        and not inspect.getdoc(value)
    ]
    assert undocumented == []


@pytest.mark.parametrize("face", FACES)
def test_every_name_a_face_imports_from_its_own_package_is_public(face: str) -> None:
    module = importlib.import_module(face)
    package = ".".join(face.split(".")[:2])
    gathered = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and isinstance(value, (type, types.FunctionType))
        and value.__module__.startswith(f"{package}.")
    }
    assert gathered - set(module.__all__) == set()


@pytest.mark.parametrize("face", LAZY_FACES)
def test_dir_shows_the_public_names_alone(face: str) -> None:
    module = importlib.import_module(face)
    assert dir(module) == list(module.__all__)


def errors_of(package: str) -> dict[str, type[Exception]]:
    module = importlib.import_module(f"tellback.{package}.errors")
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Exception) and value.__module__ == module.__name__
    }


@pytest.mark.parametrize("package", ["vectorstore", "memory"])
def test_every_error_of_a_package_is_public(package: str) -> None:
    public = {name for face in ERROR_FACES[package] for name in importlib.import_module(face).__all__}
    assert set(errors_of(package)) - public == set()


def test_every_error_of_the_agent_is_public_or_a_kind_of_a_public_one() -> None:
    errors = errors_of("agent")
    public = {
        name: error for name, error in errors.items() if name in importlib.import_module("tellback.agent").__all__
    }
    kinds = set(public.values()) - {public["AgentError"]}
    assert [name for name, error in errors.items() if name not in public and not kinds & set(error.__mro__)] == []


@pytest.mark.parametrize("face", LAZY_FACES)
def test_each_line_of_a_stub_is_a_name_of_its_face(face: str) -> None:
    module = importlib.import_module(face)
    stub = ast.parse(Path(inspect.getsourcefile(module) or "").with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    assert [alias.asname for node in imports for alias in node.names] == [*module._FACE.modules]
    assert all(node.level and alias.asname == alias.name for node in imports for alias in node.names)


@pytest.mark.parametrize("face", LAZY_FACES)
def test_importing_a_face_imports_none_of_its_modules(face: str) -> None:
    code = f"import sys; from {face} import __all__; print(*sorted(sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=600, check=True
    )
    ours = {name for name in run.stdout.split() if name.startswith("tellback.")}
    package = ".".join(face.split(".")[:2])
    assert ours <= {face, package, "tellback.vectorstore", "tellback.vectorstore.lazy_face"}


def test_the_internal_face_repeats_no_public_name() -> None:
    public, internal = (
        set(importlib.import_module(face).__all__) for face in ("tellback.memory", "tellback.memory.internals")
    )
    assert public & internal == set()


@pytest.mark.parametrize("face", LIMITS)
def test_a_face_keeps_to_its_limit_of_names(face: str) -> None:
    assert len(importlib.import_module(face).__all__) <= LIMITS[face]


@pytest.mark.parametrize("face", ["tellback.vectorstore", "tellback.memory", "tellback.agent"])
def test_every_public_name_stands_in_the_docs(face: str) -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    words = {word for page in pages for word in re.findall(r"\w+", page.read_text(encoding="utf-8"))}
    assert set(importlib.import_module(face).__all__) - words == set()


def test_every_name_of_the_page_of_names_can_be_imported() -> None:
    page = (ROOT / "docs/reference/names.md").read_text(encoding="utf-8")
    places = [importlib.import_module(face) for face in FACES if face != "tellback.memory.internals"]
    rows = re.findall(r"^\|(.+)\|$", page, re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`([A-Za-z]\w+)(?:\(\))?`", row)}
    unknown = {name for name in listed if not any(name in place.__all__ for place in places)}
    assert unknown == {"async", "result", "verify", "erase", "compact", "filling"}, "words that are no names"


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("memory.open_memory", ["path", "choose_local", "embedder", "policies", "hooks", "clock", "user_name"]),
        ("memory.LongTermMemory", ["store", "database", "history", "embedder", "zone"]),
        ("memory.LongTermMemory.recall", ["self", "question", "k", "namespace", "where", "as_of", "token_budget"]),
        ("memory.LongTermMemory.forget", ["ids", "session", "older_than", "grace"]),
        ("memory.LongTermMemory.correct", ["id", "text", "namespace", "actor", "approved_by"]),
        ("vectorstore.open_store", ["url", "space", "fields", "search"]),
    ],
)
def test_the_signature_of_a_public_call_has_every_option(path: str, names: list[str]) -> None:
    face, *members = path.split(".")
    value: object = importlib.import_module(f"tellback.{face}")
    for member in members:
        value = getattr(value, member)
    parameters = inspect.signature(value).parameters  # type: ignore[arg-type]
    assert [name for name in names if name not in parameters] == []
    assert inspect.Parameter.VAR_KEYWORD not in {parameter.kind for parameter in parameters.values()}
    assert all(name in pydoc.plain(pydoc.render_doc(value)) for name in names)


def test_the_source_of_a_public_call_is_its_own_file() -> None:
    from tellback.memory import LongTermMemory, open_memory

    for value, file in ((open_memory, "memory/open.py"), (LongTermMemory.recall, "memory/long_term.py")):
        assert (inspect.getsourcefile(value) or "").endswith(file)
        assert f"def {value.__name__}(" in inspect.getsource(value)
