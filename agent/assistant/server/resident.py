"""Server of this user's hooks and commands, over a private UNIX socket: it stays between them until it is idle.

A request brings the settings of its process; the memories stay open in a pool. Requests at once, their size and their
time are bounded. The server ends when it is idle, its code was changed, its socket is gone, or a request never ends;
the next hook starts another one. In the process of ``tellback serve`` it has that one's memory, and ends with it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tellback.agent.assistant.config import CONFIG_VARIABLE, AssistantSettings, load_configuration
from tellback.agent.assistant.hooks.hook_call import HookCall, HookReply
from tellback.agent.assistant.hooks.service import serve_hook
from tellback.agent.assistant.resident import wire
from tellback.agent.assistant.resident.client import file_stamp
from tellback.agent.assistant.resident.memory_pool import MemoryPool
from tellback.agent.assistant.upkeep import start_upkeep
from tellback.agent.json_values import parsed_object
from tellback.memory import run_sync

if TYPE_CHECKING:
    from tellback.agent.assistant.wiring import OpenedMemory
    from tellback.agent.http_listener import Message, Receive, Send

REQUESTS_AT_ONCE: Final = 8
_LONGEST_REQUEST: Final = 300.0
_SECONDS_BETWEEN_LOOKS: Final = 0.25
_QUIET: Final = 0.2
"""Seconds after a request in which the next one often comes."""
_RELEASE_AFTER: Final = 300.0
_KEPT_BYTES: Final = 300_000_000
"""Size of the process above which it closes the memories that were not used for five minutes."""
_SENT: Final = {"ending", "text", "session", "citations", "abstain", "warnings", "notes", "tokens_exact"}
"""Fields of an answer that a command shows."""
_log = logging.getLogger("tellback.agent.assistant.resident")
_Handler: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any] | None]


class ResidentServer:
    """ASGI application of the socket *path*; *on_withdrawn* is called once, when another server may take the socket.

    *address* is that of the ``tellback serve`` whose process it is part of: then nobody's idleness or request ends it.
    """

    def __init__(
        self, path: str, *, on_withdrawn: Callable[[], object], idle: float | None = None, address: str = ""
    ) -> None:
        self.served, self.ended = 0, ""
        self.idle = float(AssistantSettings.resident_idle) if idle is None else idle
        self.pool = MemoryPool()
        self._address = address
        self._path, self._on_withdrawn = path, on_withdrawn
        self._began = self._asked = time.monotonic()
        self._active: dict[object, float] = {}
        self._lock = threading.RLock()  # a signal may come while it is held
        self._slots = asyncio.Semaphore(REQUESTS_AT_ONCE)
        self._code: dict[str, str] = {}
        self._socket = file_stamp(path)
        self._handlers: Mapping[str, _Handler] = {"/hook": self._hook, "/recall": self._recall, "/ask": self._ask}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request; 409: the code was changed, 404: the process that asks runs it itself."""
        if scope["type"] != "http" or scope["method"] != "POST":
            return
        request = await _request(receive)
        if request is None:
            return
        if request.get("protocol") != wire.PROTOCOL or self._is_code_changed():
            self.stop("its code was changed")
            await _send_json(send, 409, {})
        elif scope["path"] in ("/stop", "/status"):
            if scope["path"] == "/stop" and not self._address:
                self.stop("stopped on request")
            await _send_json(send, 200, self._figures())
        elif (handler := self._handlers.get(scope["path"])) is None or request["identity"] != wire.identity(os.environ):
            await _send_json(send, 404, {})
        else:
            answer = await self._answer(handler, request)
            await _send_json(send, 404 if answer is None else 200, answer or {})

    async def _answer(self, handler: _Handler, request: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the answer to *request*; None where it fails: the process that asks shows the error."""
        mark = object()
        async with self._slots:
            self._asked = self._active[mark] = time.monotonic()
            try:
                answer = await asyncio.to_thread(handler, request)
            except Exception as error:
                _log.warning("a request failed: %s", failure_place(error))
                return None
            finally:
                del self._active[mark]
        self.served += 1
        return answer

    def _hook(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer a hook of a client, and keep what was said."""
        settings, payload = self._settings(request), json.loads(request["payload"])
        if not isinstance(payload, dict):
            raise ValueError("a hook's payload is a JSON object")
        call = HookCall(request["client"], request["event"], payload, request["folder"], datetime.now(UTC))
        replies: list[HookReply] = []
        with self.pool.lend(settings, create=True) as opened:
            run_sync(serve_hook(call, replies.append, memory=opened.memory, settings=settings))
        return {"output": "".join(reply.stdout for reply in replies)}

    def _recall(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer a question with what is found, whole."""
        options = dict(request["options"])
        options |= {name: datetime.fromisoformat(options[name]) for name in ("as_of", "known_at") if name in options}
        from tellback.agent.desk.results import FoundMemories

        with self.pool.lend(self._settings(request), create=False) as opened:
            found = run_sync(opened.desk.recall(request["question"], request["k"], **options))
            language = opened.analyzer.language
        result = FoundMemories.of(found).model_dump()
        left_out = [omitted.reason for omitted in found.left_out]
        return {"found": result, "left_out": left_out, "language": language}

    def _ask(self, request: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Answer a question by quotes; None where a model answers: its process shows how far it is, and stops it."""
        settings = self._settings(request)
        if settings.model is not None:
            return None
        with self.pool.lend(settings, create=False) as opened:
            return run_sync(_answer(opened, request["question"]))

    def _settings(self, request: Mapping[str, Any]) -> AssistantSettings:
        """Return the settings of the process that asks."""
        folder, environ = request["folder"], dict(request["environment"])
        if CONFIG_VARIABLE in environ:
            environ[CONFIG_VARIABLE] = str(Path(folder, environ[CONFIG_VARIABLE]))
        settings = load_configuration(flags=request["flags"], environ=environ).settings
        self.idle = float(settings.resident_idle)
        return settings if settings.file is None else replace(settings, memory=Path(folder, settings.file))

    async def watch(self) -> str:
        """Return the reason once the server is to end; meanwhile use pauses for upkeep."""
        while not self.ended:
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
            if reason := await asyncio.to_thread(self._reason_to_end):
                self.stop(reason)
        return self.ended

    def stop(self, reason: str) -> None:
        """Release the socket to another server at once, and end soon."""
        with self._lock:
            if self.ended:
                return
            self.ended = reason
        if file_stamp(self._path) == self._socket:  # otherwise another server listens there by now
            Path(self._path).unlink()
        self._on_withdrawn()

    def _reason_to_end(self) -> str:
        now = time.monotonic()
        if now - min(list(self._active.values()), default=now) > _LONGEST_REQUEST:
            return "a request does not end"
        if file_stamp(self._path) != self._socket:
            return "the socket is gone"
        pause = 0.0 if self._active else now - self._asked
        try:
            self._keep_up(pause)
        except Exception as error:  # a full disk, a file that is gone: the next request reports it
            _log.warning("upkeep failed: %s", failure_place(error))
        return "idle" if pause > self.idle and not self._address else ""

    def _keep_up(self, pause: float) -> None:
        """Empty the logs of open files, start what is due, close unused memories, *pause* seconds after a request."""
        if pause > _QUIET:
            self.pool.empty_logs()
            for settings in self.pool.open_settings():
                start_upkeep(settings)
        if pause > _RELEASE_AFTER and resident_bytes() > _KEPT_BYTES:
            self.pool.release(unused_for=_RELEASE_AFTER)

    def _is_code_changed(self) -> bool:
        """Return whether a file of our code differs from when it was first seen here, after an upgrade or an edit."""
        modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == "tellback"]
        stamps = {file: file_stamp(file) for module in modules if (file := getattr(module, "__file__", None))}
        return any(self._code.setdefault(file, stamp) != stamp for file, stamp in stamps.items())

    def _figures(self) -> dict[str, Any]:
        now = time.monotonic()
        return {
            "outcome": "done",
            "pid": os.getpid(),
            "age": round(now - self._began, 1),
            "idle": round(now - self._asked, 1),
            "ends_after": None if self._address else self.idle,
            "address": self._address or None,
            "served": self.served,
            "bytes": resident_bytes(),
            "memories": self.pool.open_paths(),
            "folder": wire.PACKAGES,
        }


async def _answer(opened: OpenedMemory, question: str) -> dict[str, Any]:
    from pydantic import TypeAdapter

    from tellback.agent.assistant.wiring import assistant_around
    from tellback.agent.results import RunResult

    assistant = assistant_around(opened, reads_only=True)
    try:
        result = await assistant.agent.run(question, store=False)
        locations = await opened.locations(result.citations)
    finally:
        await assistant.agent.aclose()
    return {"result": TypeAdapter(RunResult).dump_python(result, include=_SENT, mode="json"), "locations": locations}


async def _request(receive: Receive) -> dict[str, Any] | None:
    """Return the JSON object of a request; None where it is broken off, too long, or none."""
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > wire.REQUEST_LIMIT:
            return None
    return parsed_object(body)


async def _send_json(send: Send, status: int, value: Mapping[str, Any]) -> None:
    body = json.dumps(value, default=datetime.isoformat).encode()
    headers = [(b"content-length", str(len(body)).encode()), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def failure_place(error: BaseException) -> str:
    """Return the type of *error* and the line that raised it; never its message, which may quote a memory."""
    import traceback

    place = traceback.extract_tb(error.__traceback__)[-1:]
    return type(error).__name__ + "".join(f" at {Path(frame.filename).name}:{frame.lineno}" for frame in place)


def resident_bytes() -> int:
    """Return the resident set size of this process in bytes; its peak on systems that report no more."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
