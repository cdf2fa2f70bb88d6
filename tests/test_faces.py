"""The public faces: each name of ``__all__`` is listed once per table, documented, and imported only when used."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LAZY_FACES = ["vectorstore", "memory", "memory.internals", "memory.http", "memory.onnx", "agent", "agent.mcp"]
FACES = [
    *LAZY_FACES,
    "vectorstore.internals",
    "vectorstore.sqlite",
    "vectorstore.testing",
    "memory.testing",
    "agent.callables",
    "agent.testing",
]
FACES_OF_USERS = {"vectorstore": 60, "memory": 90, "agent": 70}
"""The faces that programs import, and how many names each may have."""
ERROR_FACES = {"vectorstore": ["vectorstore"], "memory": ["memory", "memory.http"]}
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
    package = face.split(".")[0]
    gathered = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and isinstance(value, (type, types.FunctionType))
        and value.__module__.split(".")[0] == package
    }
    assert gathered - set(module.__all__) == set()


@pytest.mark.parametrize("face", LAZY_FACES)
def test_dir_shows_the_public_names_alone(face: str) -> None:
    module = importlib.import_module(face)
    assert dir(module) == list(module.__all__)


def errors_of(package: str) -> dict[str, type[Exception]]:
    module = importlib.import_module(f"{package}.errors")
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
    public = {name: error for name, error in errors.items() if name in importlib.import_module("agent").__all__}
    kinds = set(public.values()) - {public["AgentError"]}
    assert [name for name, error in errors.items() if name not in public and not kinds & set(error.__mro__)] == []


@pytest.mark.parametrize("face", LAZY_FACES)
def test_the_stub_of_a_face_lists_every_lazily_imported_name(face: str) -> None:
    module = importlib.import_module(face)
    stub = ast.parse(Path(inspect.getsourcefile(module) or "").with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    assert {alias.name: node.module for node in imports for alias in node.names} == module._FACE.modules
    assert all(alias.asname == alias.name for node in imports for alias in node.names)
    assert sorted(module._FACE.modules) == list(module.__all__)


@pytest.mark.parametrize("face", LAZY_FACES)
def test_importing_a_face_imports_none_of_its_modules(face: str) -> None:
    code = f"import sys; from {face} import __all__; print(*sorted(sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=600, check=True
    )
    ours = {name for name in run.stdout.split() if name.split(".")[0] in ("vectorstore", "memory", "agent")}
    assert ours <= {face, face.partition(".")[0], "vectorstore", "vectorstore.lazy_face"}


def test_the_internal_face_repeats_no_public_name() -> None:
    public, internal = (set(importlib.import_module(face).__all__) for face in ("memory", "memory.internals"))
    assert public & internal == set()


@pytest.mark.parametrize("face", ["vectorstore", "memory", "agent"])
def test_a_face_for_users_keeps_to_its_limit_of_names(face: str) -> None:
    assert len(importlib.import_module(face).__all__) <= FACES_OF_USERS[face]


@pytest.mark.parametrize("face", ["vectorstore", "memory", "agent"])
def test_every_public_name_stands_in_the_docs(face: str) -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    words = {word for page in pages for word in re.findall(r"\w+", page.read_text(encoding="utf-8"))}
    assert set(importlib.import_module(face).__all__) - words == set()
