"""The public faces: what ``__all__`` says is sorted, there, and documented."""

from __future__ import annotations

import ast
import importlib
import inspect
import types

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
def test_every_error_of_a_package_is_public(package: str) -> None:
    errors = importlib.import_module(f"{package}.errors")
    face = importlib.import_module(package)
    raised = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception) and value.__module__ == errors.__name__
    }
    assert raised - set(face.__all__) == set()


@pytest.mark.parametrize("face", ["vectorstore", "memory", "agent"])
def test_what_is_imported_late_is_what_type_checkers_see(face: str) -> None:
    module = importlib.import_module(face)
    (block,) = (part for part in ast.parse(inspect.getsource(module)).body if isinstance(part, ast.If))
    seen = {part.module: {one.name for one in part.names} for part in block.body if isinstance(part, ast.ImportFrom)}
    assert {part: set(names.split()) for part, names in module._NAMES.items()} == seen
    assert sorted(module._WHERE) == list(module.__all__)
