"""The public faces: what ``__all__`` says is sorted, there, and documented."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import types
from pathlib import Path

import pytest

FACES = [
    "vectorstore",
    "vectorstore.sqlite",
    "vectorstore.testing",
    "memory",
    "memory.http",
    "memory.testing",
    "agent",
    "agent.testing",
]

# memory.http is a module, not a package that only gathers: these it uses and does not offer.
LOWER_PARTS = {
    name
    for name, value in vars(importlib.import_module("memory.http")).items()
    if getattr(value, "__module__", "").split(".")[0] == "memory" and value.__module__ != "memory.http"
}


@pytest.mark.parametrize("face", FACES)
def test_all_is_sorted_without_repeats(face: str) -> None:
    names = importlib.import_module(face).__all__
    assert list(names) == sorted(set(names))


@pytest.mark.parametrize("face", FACES)
def test_every_public_name_is_there_and_documented(face: str) -> None:
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
def test_what_a_face_gathers_from_its_own_package_is_public(face: str) -> None:
    module = importlib.import_module(face)
    package = face.split(".")[0]
    gathered = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and isinstance(value, (type, types.FunctionType))
        and value.__module__.split(".")[0] == package
    }
    assert gathered - set(module.__all__) == (LOWER_PARTS if face == "memory.http" else set())


@pytest.mark.parametrize("package", ["vectorstore", "memory", "agent"])
def test_every_error_of_a_package_is_public_or_a_kind_of_a_public_one(package: str) -> None:
    errors = importlib.import_module(f"{package}.errors")
    face = importlib.import_module(package)
    raised = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, Exception) and value.__module__ == errors.__name__
    ]
    (base,) = (error for error in raised if not set(error.__bases__) & set(raised))
    public = {error for error in raised if error.__name__ in face.__all__}
    assert base in public
    assert [
        error.__name__ for error in raised if not (set(error.__mro__) - {base}) & public and error is not base
    ] == []


@pytest.mark.parametrize("face", ["vectorstore", "memory", "agent"])
def test_what_is_imported_late_is_what_type_checkers_see(face: str) -> None:
    module = importlib.import_module(face)
    exports = module._EXPORTS if hasattr(module, "_EXPORTS") else module._NAMES
    stub = Path(str(module.__file__)).with_suffix(".pyi")
    if stub.exists():
        body = ast.parse(stub.read_text(encoding="utf-8")).body
    else:
        (block,) = (part for part in ast.parse(inspect.getsource(module)).body if isinstance(part, ast.If))
        body = block.body
    seen: dict[str | None, set[str]] = {}
    for part in body:
        if isinstance(part, ast.ImportFrom):
            seen.setdefault(part.module, set()).update(alias.name for alias in part.names)
    assert {part: set(names.split()) for part, names in exports.items()} == seen
    assert sorted(name for names in exports.values() for name in names.split()) == list(module.__all__)


@pytest.mark.parametrize(("face", "most", "page"), [("agent", 70, "agent.md")])
def test_a_face_is_small_and_each_of_its_names_stands_on_its_page(face: str, most: int, page: str) -> None:
    module = importlib.import_module(face)
    text = (Path(__file__).parents[1] / "docs" / page).read_text(encoding="utf-8")
    assert len(module.__all__) <= most
    assert dir(module) == list(module.__all__)
    assert [name for name in module.__all__ if not re.search(rf"\b{name}\b", text)] == []
