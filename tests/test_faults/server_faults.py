"""Faults of a PostgreSQL server while a process writes to it, with the writes of the crash tests of files.

After each fault the contents are compared with the plain model: what was acknowledged is there, the step in flight
whole or not at all. A store that was open all the time goes on by itself. A writer that is not killed itself gets a
typed error within its bound.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from tellback.vectorstore import VectorStoreError, open_store
from tests.support.postgres import PostgresServer, running_pooler, running_server
from tests.support.spaces_model import SpacesModel
from tests.test_faults.agreement import disagreements, rows
from tests.test_faults.children import Child, Ended, Say
from tests.test_faults.workload import NAMESPACES, SPACES, Workload

_STEPS = 40
_BUSY_TIMEOUT = 5.0
_BOUND = 3 * _BUSY_TIMEOUT
"""Seconds within which a call ends, with an answer or a typed error."""


def server_rounds(folder: str, seed: int, rounds: int, fault: str) -> dict[str, Any]:
    """Inflict *fault* while a process writes, compare, and repeat on the same schema."""
    rng, workload = random.Random(seed), Workload(seed)
    model, number, acknowledged, inside, broken = SpacesModel(space=SPACES[0]), 0, 0, 0, []
    errors: Counter[str] = Counter()
    with ExitStack() as stack:
        server = stack.enter_context(running_server(fsync="on", synchronous_commit="on"))
        host = str(stack.enter_context(running_pooler(server))) if fault == "pooler" else str(server.folder)
        address = server.address(folder, host=host, busy_timeout=str(_BUSY_TIMEOUT))
        inflict = _FAULTS[fault]
        held = stack.enter_context(closing(open_store(address, space=SPACES[0])))
        for turn in range(rounds):
            first = number

            def work(say: Say, first: int = first) -> None:
                opened = open_store(address)
                for step in range(first, first + _STEPS):
                    began = time.monotonic()
                    try:
                        workload.apply(step, opened)
                    except VectorStoreError as error:
                        say(f"error {type(error).__name__} {time.monotonic() - began:.1f}")
                        return
                    say(str(step))

            child, steps = Child(work), rng.choice([2, 10, 30])
            ended = inflict(server, child, steps, rng.random() * 0.1)
            said = [line for line in ended.said if line.isdigit()]
            for line in set(ended.said) - set(said):
                _, name, seconds = [*line.split(), "", ""][:3] if line.startswith("error") else ("", line, "0")
                errors[name] += 1
                if not line.startswith("error") or float(seconds) > _BOUND:
                    broken.append(f"round {turn}: {line}")
            for step in range(first, first + len(said)):
                workload.apply(step, model)
            number, acknowledged = first + len(said), acknowledged + len(said)
            counts = _counts(held)
            with closing(open_store(address)) as again:
                contents = rows(again)
                if contents != rows(model):
                    workload.apply(number, model)
                    number, inside = number + 1, inside + 1
                if contents != rows(model):
                    broken.append(f"round {turn}: neither the state after step {number - 1} nor the one before")
                    break
                broken += [f"round {turn}, step {number}: {wrong}" for wrong in disagreements(again, model, turn)]
            if counts != _counts(model):
                broken.append(f"round {turn}: the store that was open counts {counts}")
    report = {"acknowledged": acknowledged, "in flight": inside, "errors": dict(errors), "broken": broken}
    return {"seed": seed, "rounds": turn + 1, **report}


def _counts(store: Any) -> list[int]:
    """Return how many entries there are, as soon as the server answers again and is done with a killed client."""
    end = time.monotonic() + 60
    while True:
        with suppress(VectorStoreError), store.transaction():
            return [store.count(namespace=name) for name in NAMESPACES]
        if time.monotonic() > end:
            return []


def _kill_client(server: PostgresServer, child: Child, steps: int, pause: float) -> Ended:
    return child.kill_after(pause, lines=steps)


def _kill_backends(server: PostgresServer, child: Child, steps: int, pause: float) -> Ended:
    def kill() -> None:
        with suppress(psycopg.Error), psycopg.connect(_admin(server), autocommit=True) as admin:
            query = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            for (pid,) in admin.execute(query).fetchall():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    return _after(child, steps, pause, kill)


def _end_connections(server: PostgresServer, child: Child, steps: int, pause: float) -> Ended:
    def end() -> None:
        with psycopg.connect(_admin(server), autocommit=True) as admin:
            query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend'"
            admin.execute(f"{query} AND pid <> pg_backend_pid()")

    return _after(child, steps, pause, end)


def _kill_server(server: PostgresServer, child: Child, steps: int, pause: float) -> Ended:
    def kill() -> None:
        server.kill()
        server.start()

    return _after(child, steps, pause, kill)


def _restart_server(server: PostgresServer, child: Child, steps: int, pause: float) -> Ended:
    def restart() -> None:
        server.stop()
        server.start()

    return _after(child, steps, pause, restart)


def _hold_everything(server: PostgresServer, child: Child, steps: int, pause: float) -> Ended:
    """A stranger's transaction that has every table for longer than a call waits."""

    def hold() -> None:
        with psycopg.connect(_admin(server)) as stranger:
            find = "SELECT schemaname, tablename FROM pg_tables WHERE schemaname LIKE 's%' AND tablename = 'entries'"
            schema, table = stranger.execute(find).fetchone() or ("", "")
            entries = sql.Identifier(schema, table)
            stranger.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(entries))
            time.sleep(_BUSY_TIMEOUT + 1)

    return _after(child, steps, pause, hold)


def _after(child: Child, steps: int, pause: float, fault: Callable[[], None]) -> Ended:
    return child.wait_beside(fault, lines=steps, pause=pause)


def _admin(server: PostgresServer) -> str:
    return f"postgresql://owner@/postgres?host={server.folder}"


_FAULTS: dict[str, Callable[[PostgresServer, Child, int, float], Ended]] = {
    "client": _kill_client,
    "backend": _kill_backends,
    "connections": _end_connections,
    "server": _kill_server,
    "restart": _restart_server,
    "stranger": _hold_everything,
    "pooler": _end_connections,
}


def full_disk(folder: str, seed: int, rounds: int) -> dict[str, Any]:
    """Fill the file system of the tablespace (a small tmpfs, which needs the right to mount), and make room again."""
    place, broken, full, acknowledged = Path(folder) / "small", [], 0, 0
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", place], capture_output=True).returncode:
        return {"seed": seed, "rounds": 0, "skipped": "no right to mount", "broken": []}
    try:
        with running_server() as server, _open_to(Path(folder), server):
            inner = place / "space"
            inner.mkdir()
            subprocess.run(["chown", "-R", "nobody:nogroup", place], check=False)
            with psycopg.connect(_admin(server), autocommit=True) as admin:
                admin.execute(f"CREATE TABLESPACE small LOCATION '{inner}'")
            options = "-c default_tablespace=small"
            address = server.address(folder, options=options, busy_timeout=str(_BUSY_TIMEOUT))
            rng, workload, model = random.Random(seed), Workload(seed, "upsert"), SpacesModel(space=SPACES[0])
            with closing(open_store(address, space=SPACES[0])) as store:
                number = 0
                for turn in range(rounds):
                    for _ in range(rng.randint(1, 6)):
                        workload.apply(number, store)
                        workload.apply(number, model)
                        number, acknowledged = number + 1, acknowledged + 1
                    filler = place / "filler"
                    with suppress(OSError), filler.open("wb", buffering=0) as file:
                        while True:
                            file.write(bytes(4096))
                    try:
                        for _ in range(40):
                            workload.apply(number, store)
                            workload.apply(number, model)
                            number, acknowledged = number + 1, acknowledged + 1
                    except VectorStoreError as error:
                        full += type(error).__name__ == "StorageFull"
                        if type(error).__name__ != "StorageFull":
                            broken.append(f"round {turn}: {type(error).__name__}: {error}")
                    broken += [f"round {turn}, full: {wrong}" for wrong in disagreements(store, model, turn)]
                    filler.unlink()
                broken += [f"in the end: {wrong}" for wrong in disagreements(store, model, seed)]
    finally:
        subprocess.run(["umount", place], check=True)
    return {"seed": seed, "rounds": rounds, "acknowledged": acknowledged, "full": full, "broken": broken}


@contextmanager
def _open_to(folder: Path, server: PostgresServer) -> Iterator[None]:
    """Let the user that PostgreSQL runs as go through *folder*."""
    for above in (folder, *folder.parents):
        with suppress(PermissionError):
            above.chmod(above.stat().st_mode | 0o011)
    yield
