"""Homes of a memory that a test is run over: in a file, in the process, and on a PostgreSQL server.

All but the file are slow; the server has a stage of ``.ci/run`` of its own (``-m server_home``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.support.postgres import PostgresServer

SERVER_HOME: Final = pytest.param("postgresql", marks=[pytest.mark.slow, pytest.mark.server_home])
HOMES: Final = ["sqlite", pytest.param("numpy", marks=pytest.mark.slow), SERVER_HOME]


def address_in_home(request: pytest.FixtureRequest, folder: Path, name: str = "m") -> str:
    """Return the address of the memory *name* of a test, in the home that the parameter of its fixture is."""
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        return server.address(folder / name)
    return f"sqlite:///{folder / name}.db" if request.param == "sqlite" else "numpy:"
