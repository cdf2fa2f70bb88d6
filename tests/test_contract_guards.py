"""Contracts stay switched on: nobody overrides a shipped test, and none of them can pass without testing.

A contract is a class of a package's ``testing`` whose name ends in "Contract"; the guards look at all of them
and at all classes made from them in the test tree.
"""

import ast
import importlib
import importlib.util
import inspect
import pkgutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent
FACES = ("tellback.vectorstore.testing", "tellback.memory.testing", "tellback.agent.testing")
OWN = ("tests.support.retention_contract", "tests.support.summary_contract", "tests.support.window_contract")
"""Modules with the contracts of parts that have implementations here alone."""


def shipped_contracts() -> list[type]:
    """Return every contract class that the packages ship."""
    found: dict[str, type] = {}
    for face in (*FACES, *OWN):
        for module in modules_of(face):
            for name, value in vars(module).items():
                if isinstance(value, type) and name.endswith("Contract") and value.__module__ == module.__name__:
                    found[f"{module.__name__}.{name}"] = value
    return [found[name] for name in sorted(found)]


def modules_of(face: str) -> Iterator[ModuleType]:
    if importlib.util.find_spec(face) is None:
        return
    package = importlib.import_module(face)
    yield package
    for info in pkgutil.walk_packages(getattr(package, "__path__", ()), f"{face}."):
        yield importlib.import_module(info.name)


def modules_that_keep_contracts() -> list[ModuleType]:
    """Return the modules of the test tree that name a contract, imported as pytest imports them."""
    modules = []
    for path in sorted(ROOT.rglob("test_*.py")):
        if "Contract" not in path.read_text(encoding="utf-8") or path == Path(__file__).resolve():
            continue
        name = ".".join(("tests", *path.relative_to(ROOT).with_suffix("").parts))
        if name not in sys.modules:
            spec = importlib.util.spec_from_file_location(name, path)
            assert spec is not None
            assert spec.loader is not None
            sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])
        modules.append(sys.modules[name])
    return modules


def descendants(cls: type) -> set[type]:
    """Return all classes made from *cls*, over any number of steps; a class made in a function is never collected."""
    direct = [child for child in cls.__subclasses__() if "<locals>" not in child.__qualname__]
    return {*direct, *(lower for child in direct for lower in descendants(child))}


def own_tests(cls: type) -> dict[str, object]:
    return {name: value for name, value in vars(cls).items() if name.startswith("test")}


def all_tests(cls: type) -> set[str]:
    return {name for base in cls.__mro__ for name in own_tests(base)}


def overrides(contracts: list[type]) -> list[str]:
    """Name each test of a contract that a class below it defines again, or takes away."""
    wrong = set()
    for contract in contracts:
        for cls in descendants(contract):
            for name in own_tests(contract).keys() & vars(cls).keys():
                wrong.add(f"{cls.__module__}.{cls.__qualname__} overrides {contract.__name__}.{name}")
    return sorted(wrong)


def lost_tests(contracts: list[type]) -> list[str]:
    """Name each test of a contract that a class does not inherit unchanged: another base stands before."""
    wrong = set()
    for contract in contracts:
        for cls in descendants(contract):
            for name, value in own_tests(contract).items():
                if inspect.getattr_static(cls, name) is not value:
                    wrong.add(f"{cls.__qualname__}.{name} is not {contract.__name__}'s")
    return sorted(wrong)


def unreasoned(contracts: list[type]) -> list[str]:
    """Name each declared lack of a class that is no contract test, or has no reason."""
    wrong = set()
    for contract in contracts:
        for cls in {contract, *descendants(contract)}:
            for name, reason in getattr(cls, "lacks", {}).items():
                if name not in all_tests(cls):
                    wrong.add(f"{cls.__qualname__} lacks {name!r}, which is no test of it")
                if not isinstance(reason, str) or len(reason.split()) < 3:
                    wrong.add(f"{cls.__qualname__} lacks {name!r} without a reason")
    return sorted(wrong)


def vacuous(contracts: list[type]) -> list[str]:
    """Name each test that can pass without having tested: it returns, or asserts nothing that could fail."""
    wrong = []
    for contract in contracts:
        for name, value in own_tests(contract).items():
            tree = ast.parse(textwrap.dedent(inspect.getsource(value)))  # type: ignore[arg-type]
            wrong += [f"{contract.__name__}.{name} {fault}" for fault in faults(tree.body[0])]
    return sorted(wrong)


def faults(function: ast.AST) -> Iterator[str]:
    if any(isinstance(node, ast.Return) for node in inside(function)):
        yield "returns early"
    asserted = [node.test for node in ast.walk(function) if isinstance(node, ast.Assert)]
    if any(map(always_true, asserted)):
        yield "asserts what is always true"
    called = {ast.unparse(node.func).split(".")[-1] for node in ast.walk(function) if isinstance(node, ast.Call)}
    if not asserted and not called & {"raises", "abandoned", "fail"}:
        yield "checks nothing"


def inside(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of functions defined in it."""
    for node in ast.iter_child_nodes(function):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        yield node
        yield from inside(node)


def always_true(test: ast.expr) -> bool:
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if isinstance(test, ast.Tuple):
        return bool(test.elts)
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        return any(map(always_true, test.values))
    return False


@pytest.fixture(scope="module")
def contracts() -> list[type]:
    modules_that_keep_contracts()
    return shipped_contracts()


def test_every_shipped_contract_has_a_test_class(contracts: list[type]) -> None:
    assert {"VectorStoreContract", "LifecycleContract", "FilterContract"} <= {
        contract.__name__ for contract in contracts
    }
    idle = [kind.__name__ for kind in contracts if not any(d.__name__.startswith("Test") for d in descendants(kind))]
    assert idle == []


def test_nobody_overrides_a_test_of_a_contract(contracts: list[type]) -> None:
    assert overrides(contracts) == []
    assert lost_tests(contracts) == []


def test_every_declared_lack_names_a_contract_test_and_a_reason(contracts: list[type]) -> None:
    assert unreasoned(contracts) == []


def test_no_test_of_a_contract_can_pass_without_testing(contracts: list[type]) -> None:
    assert vacuous(contracts) == []


class PlantedContract:
    def test_sound(self) -> None:
        assert len("x") == 1

    def test_returning(self) -> None:
        if sys.platform:
            return
        assert len("x") == 1

    def test_true(self) -> None:
        assert True

    def test_true_in_disguise(self) -> None:
        assert len("x") == 2 or True

    def test_empty(self) -> None:
        len("x")

    def test_returning_inside_a_function_of_its_own(self) -> None:
        def one() -> int:
            return 1

        assert one() == 1


class Stranger:
    def test_true(self) -> None:
        assert len("x") == 1


class Keeps(PlantedContract):
    lacks = {"test_sound": "it has no sound", "test_unknown": "it has no such thing", "test_empty": ""}  # noqa: RUF012


class KeepsBelow(Keeps):
    def test_sound(self) -> None:
        assert len("y") == 1


class Removes(PlantedContract):
    test_empty = None


class Hides(Stranger, PlantedContract):
    pass


def test_a_planted_override_is_found_however_deep() -> None:
    found = overrides([PlantedContract])
    assert [line.split(" overrides ")[1] for line in found] == [
        "PlantedContract.test_sound",
        "PlantedContract.test_empty",
    ]
    assert "KeepsBelow" in found[0]
    assert "Removes" in found[1]


def test_the_guard_finds_a_contract_test_hidden_by_a_planted_base_class() -> None:
    assert "Hides.test_true is not PlantedContract's" in lost_tests([PlantedContract])


def test_planted_empty_tests_are_found() -> None:
    assert vacuous([PlantedContract]) == [
        "PlantedContract.test_empty checks nothing",
        "PlantedContract.test_returning returns early",
        "PlantedContract.test_true asserts what is always true",
        "PlantedContract.test_true_in_disguise asserts what is always true",
    ]


def test_planted_lacks_without_a_test_or_a_reason_are_found() -> None:
    found = unreasoned([PlantedContract])
    assert "Keeps lacks 'test_unknown', which is no test of it" in found
    assert "Keeps lacks 'test_empty' without a reason" in found
    assert not any("test_sound" in line for line in found if line.startswith("Keeps "))
