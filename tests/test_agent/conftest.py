"""A memory without a file, and the command line in process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tellback.memory import LongTermMemory, NoSecrets
from tellback.vectorstore import open_store
from tests.support.command_line import CommandLine


@pytest.fixture
async def memory() -> AsyncIterator[LongTermMemory]:
    opened = LongTermMemory(open_store("numpy:"))
    yield opened
    await opened.close()


@pytest.fixture
def tellback(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command line on ``m.db`` of the test's folder, which is the working directory too."""
    monkeypatch.chdir(tmp_path)
    return CommandLine(tmp_path / "m.db", capsys, monkeypatch)


@pytest.fixture
async def memory_without_secrets() -> AsyncIterator[LongTermMemory]:
    opened = LongTermMemory(open_store("numpy:"), policies=(NoSecrets(),))
    yield opened
    await opened.close()
