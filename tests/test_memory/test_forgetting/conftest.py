"""Memories, a clock and documents of the tests of forgetting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tellback.memory import Embedder, LongTermMemory
from tests.support.forgetting import STORES, SettableClock, memory_on, write_notes
from tests.support.slow import first_fast


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture
def embedder() -> Embedder | None:
    """The embedder of ``memory``; a file of tests that needs one overrides this."""
    return None


@pytest.fixture(params=first_fast(STORES))
def memory(
    request: pytest.FixtureRequest, tmp_path: Path, clock: SettableClock, embedder: Embedder | None
) -> Iterator[LongTermMemory]:
    with memory_on(request.param, tmp_path, clock=clock, embedder=embedder) as opened:
        yield opened


@pytest.fixture
def file_memory(tmp_path: Path, clock: SettableClock) -> Iterator[LongTermMemory]:
    with memory_on("sqlite", tmp_path, clock=clock) as opened:
        yield opened


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return write_notes(tmp_path)
