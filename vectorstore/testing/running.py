"""A contract run without a pytest session: which of its tests does a store fail?

For those who plant a fault in a store and want to see that it is caught. A store's own tests need no more than a
class that names its contracts.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from vectorstore.testing.suite import StoreContract


def contract_tests(contract: type[StoreContract]) -> dict[str, Callable[..., object]]:
    """Return the tests of a contract by name."""
    return {name: value for name, value in inspect.getmembers(contract, callable) if name.startswith("test_")}


def failing_tests(contract: type[StoreContract], folder: Path) -> dict[str, BaseException]:
    """Run every test of *contract* in new folders inside *folder*; return the failed ones with what they raised.

    Of a test with parameters, the first case that fails counts. What the store lacks or skips does not fail.
    """
    failed: dict[str, BaseException] = {}
    numbers = itertools.count()
    for name, test in contract_tests(contract).items():
        if name in contract.lacks:
            continue
        for case in _cases(test):
            failure = _failure(contract, test, case, folder / f"run{next(numbers)}")
            if failure is not None:
                failed[name] = failure
                break
    return failed


def _failure(
    contract: type[StoreContract], test: Callable[..., object], case: dict[str, Any], folder: Path
) -> BaseException | None:
    folder.mkdir()
    suite = contract()
    suite.begin(folder)
    try:
        test(suite, **case)
    except pytest.skip.Exception:
        return None
    except (Exception, pytest.fail.Exception) as failure:  # whatever a test raises is its failure
        return failure
    finally:
        suite.end()
    return None


def _cases(test: Callable[..., object]) -> Iterator[dict[str, Any]]:
    """Yield the arguments of each case, from the test's parametrize marks."""
    axes: list[list[dict[str, Any]]] = []
    for mark in getattr(test, "pytestmark", []):
        if mark.name == "parametrize":
            given, values = mark.args
            names = [name.strip() for name in given.split(",")] if isinstance(given, str) else list(given)
            axes.append([_named(names, value) for value in values])
    for chosen in itertools.product(*axes):
        yield {name: value for part in chosen for name, value in part.items()}


def _named(names: list[str], value: Any) -> dict[str, Any]:
    values = [value] if len(names) == 1 else list(value)
    return dict(zip(names, values, strict=True))
