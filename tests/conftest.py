"""Every test gets a clean environment: no keys, a home of its own, and no network beyond this machine.

Inner part, on no face: ``tellback.memory.embedders.e5_encoder``.
"""

from __future__ import annotations

import gc
import ipaddress
import os
import re
import shutil
import signal
import socket
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import certifi
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from numpy.typing import NDArray

from tellback.memory.embedders.e5_encoder import E5Network
from tests.support.postgres import PostgresServer, running_server

_OURS = ("TELLBACK_", "OPENAI_", "ANTHROPIC_", "OLLAMA_", "GEMINI_", "GOOGLE_", "AZURE_")
_TESTS = Path(__file__).parent
_HOMES = count()
_ALL_SLOW = re.compile(r"^pytestmark = .*\bpytest\.mark\.slow\b", re.MULTILINE)
_CLIENT_FOLDERS = (
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "COPILOT_HOME",
    "CLINE_MCP_SETTINGS_PATH",
    "CURSOR_PROJECT_DIR",
    "OPENCODE_CONFIG",
    "APPDATA",
)
_REAL_HOME = Path.home()
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # hundreds of processes that tests start would each compile everything
_RAM_DISK = Path("/dev/shm")
_RAM_DISK_BYTES = 4 << 30
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # each worker has a core; numpy reads it when it is imported
# Else the ONNX runtime reports its use from native threads of its own, from its import on.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--faults full`` runs the fault campaign (tests/test_faults) at the size that docs/reliability.md counts."""
    group = parser.getgroup("faults", "the fault campaign")
    group.addoption("--faults", choices=("reduced", "full"), default="reduced", help="how much of it is run")
    life = "how long tests/test_memory/test_life.py plays"
    parser.addoption("--life", choices=("reduced", "full"), default="reduced", help=life)
    group.addoption("--fault-seed", type=int, default=1, help="where it begins; it is printed")


def pytest_configure(config: pytest.Config) -> None:
    """Hear interrupts: what starts the tests in the background has them ignored, and some tests are about them.

    A whole campaign (``--faults full``) has its slow proofs with it, which are left out otherwise.
    Folders of tests lie on a RAM disk where there is room on one: what a test looks at is the files, not how long
    the disk takes to keep them. ``PYTEST_DEBUG_TEMPROOT`` names another place.
    Examples that hypothesis makes are the same in each run, may take their time, and need no folder to be kept in.
    """
    slow = [HealthCheck.too_slow]  # how fast examples are made is the machine's affair
    draws = 25 if config.option.markexpr.startswith("not slow") else 100  # the gate draws more
    settings.register_profile(
        "tellback", max_examples=draws, deadline=None, derandomize=True, database=None, suppress_health_check=slow
    )
    settings.load_profile("tellback")
    if config.getoption("--faults") == "full" and config.option.markexpr == "not slow":
        config.option.markexpr = ""
    if os.access(_RAM_DISK, os.W_OK) and shutil.disk_usage(_RAM_DISK).free >= _RAM_DISK_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_RAM_DISK))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without looking for garbage, and leave what was collected out of every later look."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Import this worker's share of the tests: rewriting their assertions takes seconds, and is kept for the others."""
    worker: dict[str, Any] | None = getattr(session.config, "workerinput", None)
    if worker is None or session.config.args != session.config.getini("testpaths"):
        return
    files = sorted(path for path in _TESTS.rglob("test_*.py") if not _left_out(path, session.config))
    for path in files[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
        with suppress(Exception, pytest.skip.Exception), warnings.catch_warnings(action="error"):
            import_module(".".join(path.relative_to(_TESTS.parent).with_suffix("").parts))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files of slow tests alone out where no slow test is run: what they import takes seconds."""
    return True if collection_path.suffix == ".py" and _left_out(collection_path, config) else None


def _left_out(path: Path, config: pytest.Config) -> bool:
    return config.option.markexpr.startswith("not slow") and bool(_ALL_SLOW.search(path.read_text(encoding="utf-8")))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what needs a server or a browser, and what the gate runs in the README's first install."""
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "postgres" in fixtures:
            item.add_marker("server_home")
        if {"postgres", "browser"} & {*fixtures} or item.get_closest_marker("first_install"):
            item.add_marker("slow")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data; a test that needs it is skipped where it is missing."""
    given = os.environ.get("TELLBACK_BENCH_DATA")
    folder = Path(given) if given else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        if os.environ.get("CI"):
            pytest.fail(f"no data at {folder}: CI has it and runs these tests")
        pytest.skip(f"no data at {folder} (set TELLBACK_BENCH_DATA)")
    return folder


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server; a test that needs it is skipped where its programs are missing."""
    with running_server() as server:
        yield server


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which all processes of the tests find the converted files of the embedders: 3 seconds each time."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"


@pytest.fixture(scope="session")
def one_certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with one trusted certificate: reading all of them takes each new HTTP client tens of milliseconds."""
    end = "-----END CERTIFICATE-----\n"
    path = tmp_path_factory.getbasetemp() / "certificate.pem"
    path.write_text(certifi.contents().partition(end)[0] + end, encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def clean_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, shared_cache: Path, one_certificate: Path
) -> None:
    """Take keys, proxies and the real home away; refuse connections that leave this machine."""
    for name in list(os.environ):
        if name.startswith(_OURS) or name in _PROXIES:
            monkeypatch.delenv(name)
    home = tmp_path_factory.getbasetemp() / f"home-{next(_HOMES)}"  # numbered here: mktemp lists all folders each time
    home.mkdir()
    (home / "run").mkdir(0o700)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home / "run"))
    monkeypatch.setenv("TELLBACK_CACHE", str(shared_cache))
    monkeypatch.setenv("SSL_CERT_FILE", str(one_certificate))
    monkeypatch.setenv("TELLBACK_RESIDENT_IDLE", "0")  # a test that needs a resident process enables it, and ends it
    monkeypatch.setenv("TELLBACK_AUTOMATIC_BACKUPS", "no")  # a test of the daily backup enables it
    monkeypatch.setenv("TELLBACK_LINES", "off")  # a test of lines that a model writes beside a chat enables them
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", *_CLIENT_FOLDERS):
        monkeypatch.delenv(name, raising=False)
    assert Path.home() == home, "no test reads or writes the settings of a client of this machine"
    assert home != _REAL_HOME
    assert not _REAL_HOME.is_relative_to(home)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(socket.socket, "connect", _loopback_only(socket.socket.connect))
    monkeypatch.setattr(socket.socket, "connect_ex", _loopback_only(socket.socket.connect_ex))
    monkeypatch.setattr(socket, "getaddrinfo", _local_names_only(socket.getaddrinfo))


@pytest.fixture(scope="session")
def e5_vectors() -> dict[tuple[int, ...], NDArray[np.float32]]:
    return {}


@pytest.fixture(autouse=True)
def encoded_once(monkeypatch: pytest.MonkeyPatch, e5_vectors: dict[tuple[int, ...], NDArray[np.float32]]) -> None:
    """Send no text through the E5 encoder twice: each takes tens of milliseconds, and many tests say the same."""
    encode = E5Network.encode

    def once(network: E5Network, texts: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        new = [ids for ids in map(tuple, texts) if ids not in e5_vectors]
        e5_vectors.update(zip(new, encode(network, new), strict=True))
        return np.array([e5_vectors[tuple(ids)] for ids in texts])

    monkeypatch.setattr(E5Network, "encode", once)


def _loopback_only(connect):
    def guarded(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_loopback(address[0]):
            raise ConnectionRefusedError(f"tests do not connect to {address[0]}")
        return connect(self, address)

    return guarded


def _local_names_only(getaddrinfo):
    def guarded(host, *rest, **options):
        name = host.decode() if isinstance(host, bytes) else host
        if name not in (None, "", "localhost") and not _is_loopback(name):
            raise socket.gaierror(socket.EAI_NONAME, f"tests do not look up {name}")
        return getaddrinfo(host, *rest, **options)

    return guarded


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
