"""The embedder contract finds faults: for each fault planted in a sound embedder, some test fails."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from tellback.memory import HashingEmbedder
from tellback.memory.testing import EmbedderContract

SOUND = HashingEmbedder(dimension=32)


class Planted:
    """Hashing with a fault."""

    fingerprint = "planted/1"
    dimension = 32

    async def embed(self, texts: Sequence[str], kind: Any = "document") -> Any:
        return await SOUND.embed(texts, kind)


class DoublePrecision(Planted):
    async def embed(self, texts: Sequence[str], kind: Any = "document") -> Any:
        return (await SOUND.embed(texts, kind)).astype(np.float64)


class NotUnit(Planted):
    async def embed(self, texts: Sequence[str], kind: Any = "document") -> Any:
        return 2 * await SOUND.embed(texts, kind)


class NotUnitForQuestions(Planted):
    async def embed(self, texts: Sequence[str], kind: Any = "document") -> Any:
        return (2 if kind == "query" else 1) * await SOUND.embed(texts, kind)


class SortedRows(Planted):
    async def embed(self, texts: Sequence[str], kind: Any = "document") -> Any:
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            return await SOUND.embed(texts, kind)
        return await SOUND.embed(sorted(texts), kind)


class DropsRepeats(Planted):
    async def embed(self, texts: Sequence[str], kind: Any = "document") -> Any:
        return await SOUND.embed(list(dict.fromkeys(texts)) if isinstance(texts, list) else texts, kind)


class ForgetsTheRest(Planted):
    async def embed(self, texts: Sequence[str], kind: Any = "document") -> Any:
        rows = await SOUND.embed(texts, kind)
        rows[512:] = rows[0] if len(rows) > 512 else 0
        return rows


class DependsOnTheBatch(Planted):
    async def embed(self, texts: Sequence[str], kind: Any = "document") -> Any:
        return np.roll(await SOUND.embed(texts, kind), len(texts) % 2, axis=1)


class SharesItsRows(Planted):
    def __init__(self) -> None:
        self._kept: dict[tuple[str, ...], Any] = {}

    async def embed(self, texts: Sequence[str], kind: Any = "document") -> Any:
        rows = await SOUND.embed(texts, kind)
        return self._kept.setdefault(tuple(texts), rows)


class FlatWhenEmpty(Planted):
    async def embed(self, texts: Sequence[str], kind: Any = "document") -> Any:
        return await SOUND.embed(texts, kind) if texts else np.zeros(0, np.float32)


class BlankIsSomething(Planted):
    async def embed(self, texts: Sequence[str], kind: Any = "document") -> Any:
        return await SOUND.embed([text.strip() or "blank" if isinstance(text, str) else text for text in texts], kind)


class TakesAnything(Planted):
    async def embed(self, texts: Sequence[str], kind: Any = "document") -> Any:
        whole = [str(text).encode(errors="replace").decode() for text in texts]
        return await SOUND.embed(whole, "document")


class OneAtATime(Planted):
    def __init__(self) -> None:
        self._texts: Sequence[str] = []

    async def embed(self, texts: Sequence[str], kind: Any = "document") -> Any:
        self._texts = texts
        await asyncio.sleep(0)
        return await SOUND.embed(self._texts, kind)


class BrokenByCancelling(Planted):
    def __init__(self) -> None:
        self._busy = False

    async def embed(self, texts: Sequence[str], kind: Any = "document") -> Any:
        if self._busy and len(texts) == 2:
            raise RuntimeError("busy")
        self._busy = True
        await asyncio.sleep(0)
        self._busy = False
        return await SOUND.embed(texts, kind)


class BoundToItsFirstLoop(Planted):
    def __init__(self) -> None:
        self._loop: Any = None

    async def embed(self, texts: Sequence[str], kind: Any = "document") -> Any:
        self._loop = self._loop or asyncio.get_running_loop()
        if self._loop is not asyncio.get_running_loop():
            raise RuntimeError("another event loop")
        return await SOUND.embed(texts, kind)


class ChangesItsName(Planted):
    def __init__(self) -> None:
        self.fingerprint = "planted/1"

    async def embed(self, texts: Sequence[str], kind: Any = "document") -> Any:
        self.fingerprint += "+"
        return await SOUND.embed(texts, kind)


class ReadsOnlyTheBeginning(Planted):
    async def embed(self, texts: Sequence[str], kind: Any = "document") -> Any:
        return await SOUND.embed([text[:50_000] for text in texts], kind)


def calls() -> Iterator[tuple[str, Callable[[Any], None]]]:
    """Yield each test of the contract with each of its parameters, as a function of an embedder."""
    for name, test in inspect.getmembers(EmbedderContract, inspect.isfunction):
        if not name.startswith("test_"):
            continue
        marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
        for options in [{mark.args[0]: value} for mark in marks for value in mark.args[1]] or [{}]:
            yield name, lambda embedder, test=test, options=options: test(EmbedderContract(), embedder, **options)


def failed(make: Callable[[], Any]) -> Iterator[str]:
    for name, call in calls():
        try:
            call(make())
        except (Exception, pytest.fail.Exception):
            yield name


def test_a_sound_embedder_passes_the_embedder_contract() -> None:
    assert not [*failed(Planted)]


@pytest.mark.parametrize("fault", sorted(Planted.__subclasses__(), key=lambda kind: kind.__name__))
def test_the_embedder_contract_finds_each_planted_fault(fault: type[Planted]) -> None:
    assert next(failed(fault), None)
