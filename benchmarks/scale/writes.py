"""Writes: ``remember`` in a file and on the server, its ways to the server, and the same by others."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.scale import made_up
from benchmarks.scale.tenants import embedder, milliseconds
from tellback.memory import open_memory


def ours(place: str, count: int) -> dict[str, float]:
    """Return the median milliseconds of a ``remember`` and of a ``recall`` after it, with ways to a server."""

    async def run() -> dict[str, float]:
        lines = made_up.texts(count + 100, 7)
        async with open_memory(place, embedder=embedder()) as memory:
            written = [await milliseconds(memory.remember(line, namespace="ana")) for line in lines[:count]]
            found = [await milliseconds(memory.recall(line, namespace="ana")) for line in lines[count:]]
        return made_up.medians(written, found)

    return asyncio.run(run())


def ways(address: str, count: int) -> dict[str, float]:
    """Return how many ways to the server a ``remember`` takes, and a ``recall`` of what is in memory."""
    from tests.support.postgres import counted_round_trips

    async def run() -> dict[str, float]:
        lines = made_up.texts(count + 1, 8)
        with counted_round_trips() as counted:
            async with open_memory(address, embedder=embedder()) as memory:
                await memory.remember(lines[-1], namespace="ben")
                begun = counted()
                for line in lines[:count]:
                    await memory.remember(line, namespace="ben")
                written = counted()
                await memory.recall(lines[0], namespace="ben")
                loaded = counted()
                for line in lines[:count]:
                    await memory.recall(line, namespace="ben")
                found = counted()
        return {"write_ways": (written - begun) / count, "search_ways": (found - loaded) / count}

    return asyncio.run(run())


def of_peer(name: str, python: str, address: str, count: int) -> dict[str, Any]:
    """Return the figures of a peer, run by the interpreter *python*; an error in words where it fails."""
    command = [python, str(Path(__file__).with_name("peers.py")), name, address, str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1][:200]}
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures
