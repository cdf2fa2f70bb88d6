"""`tellback serve` as processes: behind Caddy, started twice, killed, in a container; and what it refuses to expose.

Inner parts, on no face: ``tellback.agent.assistant.cli``, ``tellback.agent.assistant.server``.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra 'web' is not installed")

import httpx

from tellback.agent.assistant.cli.app import run_command_line
from tellback.agent.assistant.config import ConfigurationError
from tellback.agent.assistant.resident import wire
from tellback.agent.assistant.server.exposure import checked_exposure
from tellback.memory import open_memory, run_sync
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.skipif(sys.platform == "win32", reason="signals and locks of POSIX"), pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[2]
TOKEN = "a-token-of-the-test"
SETTINGS = {"TELLBACK_TOKEN": TOKEN, "TELLBACK_EMBEDDER": "none"}
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


def homes(folder: Path) -> dict[str, str]:
    return {f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("CONFIG", "STATE", "DATA")}


@contextmanager
def serving(folder: Path, *words: str, port: int = 0) -> Iterator[tuple[subprocess.Popen[str], str, list[str]]]:
    """Yield the process of a server, its address, and what it said until then; it is killed in the end."""
    command = [sys.executable, "-m", "tellback", "--memory", str(folder / "m.db"), "serve", "--no-browser"]
    process = subprocess.Popen(
        [*command, "--port", str(port), *words],
        env={**os.environ, **homes(folder), **SETTINGS},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    said, address = [], ""
    try:
        for line in process.stderr:
            said.append(line)
            if line.startswith("Serving "):
                address = line.split(" at ")[1].split(";")[0]
            if "curl" in line:
                break
        yield process, address, said
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_what_was_acknowledged_is_there_after_the_server_is_killed_and_a_second_one_finds_the_first(
    tmp_path: Path,
) -> None:
    kept = []
    with serving(tmp_path) as (process, address, _):
        with serving(tmp_path) as (second, elsewhere, said):
            assert second.wait(60) == 0
        assert (elsewhere, address in said[-1]) == ("", True)
        with httpx.Client(base_url=address, headers=BEARER, trust_env=False, timeout=60) as client:
            for number in range(12):
                client.post("/api/v1/memories", json={"text": f"The bin number {number} is green."}).raise_for_status()
                kept.append(f"The bin number {number} is green.")
            process.send_signal(signal.SIGKILL)
        log = (tmp_path / "state" / "tellback" / "access.log").read_text(encoding="utf-8")
    memory = open_memory(tmp_path / "m.db", choose_local=False)
    texts = [found.text for found in run_sync(memory.list())]
    run_sync(memory.close())
    assert sorted(texts) == sorted(kept)
    assert log.count("POST /memories 200") >= 11  # the last answer may come before its line
    assert not [word for word in ("green", TOKEN) if word in log]


def test_a_backup_is_put_back_by_a_server_that_goes_on_at_the_same_port(tmp_path: Path) -> None:
    with (
        serving(tmp_path) as (process, address, _),
        httpx.Client(base_url=f"{address}/api/v1", headers=BEARER, trust_env=False, timeout=60) as client,
    ):
        client.post("/memories", json={"text": "The bin is green."}).raise_for_status()
        name = client.post("/backup").json()["name"]
        copy = client.get(f"/backups/{name}").content
        client.post("/memories", json={"text": "The bin is black."}).raise_for_status()
        plan = client.post(f"/backups/{name}/restore", json={}).json()
        wrong = client.post(f"/backups/{name}/restore", json={"confirm": plan["confirm"][:-1] + "x"}).json()
        begun = client.post(f"/backups/{name}/restore", json={"confirm": plan["confirm"]}).json()
        texts: list[str] = []

        def is_back() -> bool:
            with suppress(httpx.TransportError):  # a connection that is kept open ends with what was served
                texts[:] = [memory["text"] for memory in client.get("/memories").json()["memories"]]
            return texts == ["The bin is green."]

        wait_until(is_back)
        client.post("/memories", json={"text": "The bin is red."}).raise_for_status()
        assert process.poll() is None
    assert copy.startswith(b"SQLite format 3")
    assert (plan["done"], plan["changes"], wrong["done"], begun["done"]) == (False, 1, False, True)
    assert len([*tmp_path.glob("m.db.before-restore-*")]) >= 1


@pytest.mark.skipif(not wire.available(), reason="this system has no sockets for it")
def test_the_server_takes_hooks_and_commands_over_from_a_resident_and_one_process_has_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in homes(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(wire.IDLE_VARIABLE, "60")
    command = [sys.executable, "-m", "tellback", "--memory", str(tmp_path / "m.db")]

    def run(*words: str, text: str = "") -> str:
        environment = {**os.environ, **SETTINGS}
        return subprocess.run([*command, *words], env=environment, input=text, capture_output=True, text=True).stdout

    def prompt(words: str, session: str) -> str:
        payload = {"session_id": session, "cwd": str(tmp_path), "prompt": words}
        return run("hook", "claude-code", "UserPromptSubmit", text=json.dumps(payload))

    def residents() -> list[dict[str, Any]]:
        return list(json.loads(run("resident", "status", "--json"))["residents"])

    prompt("I parked the van in Porto.", "first")
    (resident,) = residents()
    with serving(tmp_path) as (process, address, _):
        assert wait_until(lambda: not Path(f"/proc/{resident['pid']}/exe").exists())
        assert "Porto" in prompt("Where did I park the van?", "second")
        assert "Porto" in run("recall", "Where is the van?")
        run("resident", "stop")  # that is for residents
        (server,) = residents()
        assert (server["pid"], server["served"], server["address"]) == (process.pid, 2, address)
        assert server["memories"] == [str(tmp_path / "m.db")]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert residents() == []


@pytest.mark.skipif(shutil.which("caddy") is None, reason="caddy is not installed")
def test_a_proxy_with_tls_stands_before_the_server_as_the_how_to_says(tmp_path: Path) -> None:
    port, outer = free_port(), free_port()
    names = ("--behind-proxy", "127.0.0.1", "--name", "localhost")
    with serving(tmp_path, *names, port=port) as (_, address, said):
        assert address == f"http://127.0.0.1:{port}"
        assert any("by HTTPS through the proxy at 127.0.0.1" in line for line in said)
        site = f"https://localhost:{outer} {{\n\ttls internal\n\treverse_proxy 127.0.0.1:{port}\n}}\n"
        options = "{\n\tadmin off\n\tskip_install_trust\n\tauto_https disable_redirects\n}\n"
        (tmp_path / "Caddyfile").write_text(options + site, encoding="utf-8")
        place = str(tmp_path / "caddy")
        own = {"XDG_DATA_HOME": place, "XDG_CONFIG_HOME": place, "HOME": str(tmp_path)}
        proxy = subprocess.Popen(
            ["caddy", "run", "--config", str(tmp_path / "Caddyfile"), "--adapter", "caddyfile"],
            env={**os.environ, **own},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            root = tmp_path / "caddy" / "caddy" / "pki" / "authorities" / "local" / "root.crt"
            end = time.monotonic() + 30
            while not root.exists() and time.monotonic() < end:
                time.sleep(0.1)
            context = ssl.create_default_context(cafile=str(root))
            with httpx.Client(verify=context, trust_env=False, timeout=60, headers=BEARER) as client:
                for _attempt in range(50):
                    try:
                        health = client.get(f"https://localhost:{outer}/healthz")
                        break
                    except httpx.TransportError:
                        time.sleep(0.2)
                outside = f"https://localhost:{outer}"
                item, ours = {"text": "I live in Porto."}, {"Origin": outside}
                kept = client.post(f"{outside}/api/v1/memories", json=item, headers=ours)
                other = client.get(f"{outside}/api/v1/stats", headers={"Origin": "https://evil.example"})
                plain = client.get(f"{outside}/api/v1/stats", headers={"Origin": outside.replace("https", "http")})
                chat = client.post(f"{outside}/api/v1/chat", json={"text": "Where do I live?"})
        finally:
            proxy.terminate()
            proxy.wait(30)
    assert (health.status_code, kept.status_code, other.status_code, plain.status_code) == (200, 200, 403, 403)
    assert "event: turn_ended" in chat.text


@pytest.mark.parametrize(
    ("options", "needed"),
    [
        ({"host": "0.0.0.0"}, "--cert and --key"),
        ({"host": "192.168.1.5", "names": ["desk.local"]}, "--cert and --key"),
        ({"host": "0.0.0.0", "proxies": "10.0.0.1"}, "--name"),
        ({"proxies": "0.0.0.0/0", "names": ["m.example"]}, "everybody"),
        ({"proxies": "proxy", "names": ["m.example"]}, "addresses or networks"),
        ({"certificate": Path("nowhere.pem")}, "go together"),
        ({"certificate": Path("nowhere.pem"), "key": Path("nowhere.key")}, "no such file"),
        ({"names": ["https://m.example/"]}, "--name"),
    ],
)
def test_an_exposure_that_would_show_what_is_sent_is_refused(options: dict, needed: str) -> None:
    with pytest.raises(ConfigurationError, match=needed):
        checked_exposure(**options)


def test_a_server_with_a_certificate_is_reached_by_https_alone(tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    made = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run(
        [openssl, "req", *made, "-addext", "subjectAltName=DNS:localhost", "-keyout", "key.pem", "-out", "cert.pem"],
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    pair = ("--cert", str(tmp_path / "cert.pem"), "--key", str(tmp_path / "key.pem"))
    with serving(tmp_path, *pair) as (_, address, _said):
        port = address.rpartition(":")[2]
        context = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        with httpx.Client(headers=BEARER, verify=context, trust_env=False, timeout=60) as client:
            answer = client.get(f"https://localhost:{port}/api/v1/stats")
        with pytest.raises(httpx.TransportError):
            httpx.get(f"http://localhost:{port}/api/v1/stats", headers=BEARER, trust_env=False)
    assert address.startswith("https://")
    assert answer.json()["memories"] == 0


def test_the_entry_point_of_the_image_serves_from_its_volume(tmp_path: Path) -> None:
    steps = dict(line.split(" ", 1) for line in (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines() if line)
    assert steps["VOLUME"] == "/data"
    command, *words = json.loads(steps["ENTRYPOINT"])
    environment = dict(pair.split("=") for pair in steps["ENV"].replace("/data", str(tmp_path)).split())
    port = free_port()
    options = ["--port", str(port), "--behind-proxy", "127.0.0.1", "--name", "localhost"]
    process = subprocess.Popen(
        [sys.executable, "-m", command, *words, *options],
        env={**os.environ, **environment, "TELLBACK_EMBEDDER": "none"},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        while "curl" not in (line := process.stderr.readline()):
            assert line, "it ended"
        answer = httpx.get(f"http://localhost:{port}/readyz", trust_env=False, timeout=60)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    assert answer.json() == {"status": "ready"}
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".db-wal")[:3] == [
        "config",
        "memory.db",
        "memory.db-shm",
    ]


@pytest.mark.skipif(shutil.which("useradd") is None or os.geteuid() != 0, reason="useradd, as root, is needed")
def test_the_steps_of_the_image_make_a_user_who_owns_the_volume(tmp_path: Path) -> None:
    steps = dict(line.split(" ", 1) for line in (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines() if line)
    installing, adding, making = (shlex.split(step) for step in steps["RUN"].split(" && "))
    (tmp_path / "etc").mkdir()
    for name in ("passwd", "group", "shadow", "gshadow"):
        (tmp_path / "etc" / name).touch()
    (tmp_path / "home").mkdir()
    subprocess.run([adding[0], "--prefix", str(tmp_path), *adding[1:]], check=True, capture_output=True)
    name, _, number, *_ = (tmp_path / "etc" / "passwd").read_text().splitlines()[-1].split(":")
    place = {name: number, steps["VOLUME"]: str(tmp_path / "data")}
    subprocess.run([place.get(word, word) for word in making], check=True)
    assert name == steps["USER"]
    assert {(tmp_path / folder).stat().st_uid for folder in ("data", "home/tellback")} == {int(number)}
    assert installing[:2] == ["pip", "install"]


def test_an_unsafe_exposure_is_one_line_at_the_command_line(tmp_path: Path, capsys) -> None:
    code = run_command_line(["--memory", str(tmp_path / "m.db"), "serve", "--host", "0.0.0.0", "--port", "0"])
    assert code == 2
    assert capsys.readouterr().err.count("\n") == 1
