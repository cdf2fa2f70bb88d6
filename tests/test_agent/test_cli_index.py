"""``tellback index``: built where there is enough, listed, and dropped."""

from __future__ import annotations

from pathlib import Path

import pytest

from tellback.memory import HashingEmbedder, open_memory, run_sync
from tests.support.command_line import CommandLine
from tests.support.postgres import PostgresServer


@pytest.fixture
def address(postgres: PostgresServer, tmp_path: Path) -> str:
    place = postgres.address(tmp_path)
    memory = open_memory(place, embedder=HashingEmbedder())
    for namespace, count in (("ana", 30), ("ben", 3)):
        run_sync(memory.remember_many([f"Shelf {n} holds jar {n * n}." for n in range(count)], namespace=namespace))
    run_sync(memory.close())
    return place


def test_an_index_is_built_where_there_is_enough_listed_and_dropped(tellback: CommandLine, address: str) -> None:
    place = ("--memory", address)
    assert tellback.json(*place, "--namespace", "ben", "index", "build", "--smallest", "10") == {"indexes": []}
    (built,) = tellback.json(*place, "--namespace", "ana", "index", "build", "--half", "--smallest", "10")["indexes"]
    assert (built["namespace"], built["collection"], built["entries"]) == ("ana", None, 30)
    assert built["vectors"] == "halfvec"
    assert tellback.json(*place, "index", "list")["indexes"] == [built]
    assert "halfvec" in tellback(*place, "index", "list").out
    assert tellback(*place, "--namespace", "ana", "index", "drop").out == "dropped 1 index\n"
    assert tellback.json(*place, "index", "list") == {"indexes": []}


def test_an_index_is_refused_for_a_file(tellback: CommandLine) -> None:
    assert "postgresql://HOST/NAME is needed" in tellback("index", "build").err
