"""Runs of a store contract without a pytest session, for tests that plant a fault in a store and see it caught."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tellback.vectorstore.testing import StoreContract


def contract_tests(contract: type[StoreContract]) -> dict[str, Callable[..., object]]:
    """Return the tests of a contract by name."""
    return {name: value for name, value in inspect.getmembers(contract, callable) if name.startswith("test_")}


def failing_tests(
    contract: type[StoreContract], folder: Path, *, only: Collection[str] | None = None
) -> dict[str, BaseException]:
    """Run every test of *contract* in new folders inside *folder*; return the failed ones with what they raised.

    *only* names the tests to run (None: all). Of a test with parameters, the first case that fails counts. What the
    store lacks or skips does not fail.
    """
    failed: dict[str, BaseException] = {}
    numbers = itertools.count()
    for name, test in contract_tests(contract).items():
        if name in contract.lacks or (only is not None and name not in only):
            continue
        for case in _parametrized_cases(test):
            suite = contract()
            (run := folder / f"run{next(numbers)}").mkdir()
            suite.begin(run)
            try:
                test(suite, **_fixture_values(suite, test, case), **case)
            except pytest.skip.Exception:
                pass
            except (Exception, pytest.fail.Exception) as failure:  # whatever a test raises is its failure
                failed[name] = failure
            finally:
                suite.end()
            if name in failed:
                break
    return failed


def _fixture_values(suite: StoreContract, test: Callable[..., object], case: Mapping[str, Any]) -> dict[str, Any]:
    names = list(inspect.signature(test).parameters)[1:]
    return {name: vars(StoreContract)[name].__wrapped__(suite) for name in names if name not in case}


def _parametrized_cases(test: Callable[..., object]) -> Iterator[dict[str, Any]]:
    """Yield the arguments of each case, from the test's parametrize marks."""
    axes: list[list[dict[str, Any]]] = []
    for mark in getattr(test, "pytestmark", []):
        if mark.name == "parametrize":
            names, values = mark.args
            single = isinstance(names, str)
            axes.append([{names: value} if single else dict(zip(names, value, strict=True)) for value in values])
    for chosen in itertools.product(*axes):
        yield {name: value for part in chosen for name, value in part.items()}
