"""Stores that many tests of a memory are run over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tellback.vectorstore import LifecycleStore, open_store
from tests.support.slow import first_fast


@pytest.fixture(params=first_fast(["sqlite", "numpy"]))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LifecycleStore]:
    """Each embedded store in turn: one without a file, one in ``m.db`` of the test's folder."""
    opened = open_store("numpy:" if request.param == "numpy" else f"sqlite:///{tmp_path / 'm.db'}")
    yield opened
    opened.close()
