"""Endpoints of models (``/v1``) for any client: what is known about a prompt goes along, what was said is kept."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from tellback.agent.agent_memory import NOT_SENSITIVE_FILTER
from tellback.agent.assistant.hooks.context_block import PROMPT_HEADING, context_block
from tellback.agent.assistant.hooks.prompt_recall import recall_for_prompt
from tellback.agent.assistant.hooks.run_log import paused_since
from tellback.agent.assistant.server.proxy.chat_request import ChatRequest
from tellback.agent.assistant.server.proxy.embeddings import embeddings
from tellback.agent.assistant.server.proxy.relay import Relay
from tellback.agent.assistant.server.proxy.turn_keeper import Turn, TurnKeeper
from tellback.agent.assistant.server.proxy.upstream import MODEL_ALIAS, Refusal, Upstream, returned_headers, upstream_of
from tellback.agent.assistant.server.proxy.wires import CHAT_COMPLETIONS, MESSAGES, Wire
from tellback.agent.assistant.wiring import OpenedMemory, make_http_client
from tellback.agent.errors import AgentError
from tellback.memory import MemoryLayerError, default_counter
from tellback.memory.http import HttpError, HttpTimeout
from tellback.vectorstore import VectorStoreError

if TYPE_CHECKING:
    from tellback.memory.http import HttpClient

MEMORY_HEADER: Final = "x-tellback-memory"
SESSION_HEADERS: Final = ("x-tellback-session", "x-openwebui-chat-id")
CLIENT_HEADER: Final = "x-tellback-client"
_MODES: Final = ("off", "read", "write")
_NAME: Final = re.compile(r"[\w.:@/-]{1,120}")
_CLIENT_NAME: Final = re.compile(r"[a-z0-9-]{1,40}")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Given:
    """Request with what its *turn* was given, and *notes* on what failed."""

    request: ChatRequest
    turn: Turn
    notes: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class ModelEndpoints:
    """Endpoints in front of the model of the memory that *opened* returns for whoever asks, to write or to read.

    *client* reaches the model; None makes one by the settings of the first memory that is asked.
    """

    opened: Callable[..., Awaitable[OpenedMemory]]
    keeper: TurnKeeper = field(default_factory=TurnKeeper)
    client: HttpClient | None = None

    @property
    def router(self) -> APIRouter:
        """Routes of the endpoints; what is being kept is awaited when the application ends."""

        @asynccontextmanager
        async def lifespan(app: object) -> AsyncIterator[None]:
            try:
                yield
            finally:
                await self.keeper.finish()
                if self.client is not None:
                    await self.client.aclose()

        router = APIRouter(lifespan=lifespan, include_in_schema=False)
        for wire in (CHAT_COMPLETIONS, MESSAGES):
            router.add_api_route(wire.path, _answered_by(self._chat, wire), methods=["POST"])
        router.add_api_route("/v1/messages/count_tokens", _answered_by(self._pass, MESSAGES), methods=["POST"])
        for path in ("/v1/models", "/v1/models/{name:path}"):
            router.add_api_route(path, _answered_by(self._pass), methods=["GET"])
        router.add_api_route("/v1/embeddings", _answered_by(self._embed, CHAT_COMPLETIONS), methods=["POST"])
        return router

    async def _embed(self, wire: Wire, request: Request) -> Response:
        opened = await self.opened(request, writes=False)
        return JSONResponse(await embeddings(await request.body(), opened.memory.embedder))

    async def _pass(self, wire: Wire, request: Request) -> Response:
        """Pass *request* on as it is, and its answer back."""
        upstream = upstream_of((opened := await self.opened(request, writes=False)).settings)
        upstream.check(wire, ["list of models"])
        body = await request.body()
        return await self._forwarded(upstream, request, body, opened, None, None)

    async def _chat(self, wire: Wire, request: Request) -> Response:
        mode, body = _mode(request), await request.body()
        opened, notes = await self._memory_for(request, mode, len(body))
        upstream = upstream_of(opened.settings)
        chat = ChatRequest.read(body)
        upstream.check(wire, ["body"] if chat is None else sorted(chat.fields))
        if chat is None:
            return await self._forwarded(upstream, request, body, opened, None, None)
        if chat.model == MODEL_ALIAS:
            if not upstream.model:
                raise Refusal("no_model", f"{MODEL_ALIAS} stands for the configured model, and none is configured")
            chat = chat.with_model(upstream.model)
        turn = self._turn(wire, request, chat, opened)
        chat = chat.without_session()
        if mode == "off":
            return await self._forwarded(upstream, request, chat.body, opened, None, None)
        given = await self._given(chat, turn, opened, upstream)
        relay = Relay(wire, turn.session, given.turn.items, (*notes, *given.notes))
        kept = given.turn if mode == "write" and not notes else None
        return await self._forwarded(upstream, request, given.request.body, opened, relay, kept)

    async def _memory_for(self, request: Request, mode: str, size: int) -> tuple[OpenedMemory, tuple[str, ...]]:
        """Return the memory of whoever asks, and a note where they may not, or cannot, keep a turn of *size* there."""
        notes: tuple[str, ...] = ()
        if mode == "write":
            try:
                opened = await self.opened(request, writes=True)
                async with opened.desk.taking(memories=2, bytes=size):
                    return opened, ()
            except AgentError as refusal:
                notes = (f"this turn is not kept: {refusal}",)
        return await self.opened(request, writes=False), notes

    def _turn(self, wire: Wire, request: Request, chat: ChatRequest, opened: OpenedMemory) -> Turn:
        """Return the turn that *chat* begins or goes on with."""
        now, key = datetime.now(UTC), opened.memory.tombstones.key
        named = next((name for header in SESSION_HEADERS if (name := request.headers.get(header))), chat.session)
        if named and not _NAME.fullmatch(named):
            raise Refusal("session", "the name of a session has letters, digits and . : @ / _ -, 120 at most")
        client = request.headers.get(CLIENT_HEADER, wire.name)
        if not _CLIENT_NAME.fullmatch(client):
            raise Refusal("client", f"{CLIENT_HEADER}: small letters, digits and -, 40 at most, are needed")
        session = named or f"{now:%Y-%m-%d}-{chat.beginning(key)}"
        return Turn(client, opened.namespace, session, chat.turn(key), chat.prompt, now)

    async def _given(self, chat: ChatRequest, turn: Turn, opened: OpenedMemory, upstream: Upstream) -> _Given:
        """Return *chat* with what is known about its prompt; where tools go on, with what the turn was given before."""
        known = self.keeper.known(turn)
        turn = turn if known is None else replace(turn, kept=known.kept)
        try:
            if chat.continues_tools:
                if known is None or not await _still_holds(known, opened):
                    return _Given(chat, turn)
                return _Given(chat.with_context(known.block), known)
            if not chat.prompt:
                return _Given(chat, turn)
            await self.keeper.settle(opened.namespace)
            is_shown = opened.settings.share_sensitive or not upstream.remote
            found = await recall_for_prompt(
                opened.memory,
                chat.prompt,
                earlier=chat.earlier_prompts,
                namespace=opened.namespace,
                where=None if is_shown else NOT_SENSITIVE_FILTER,
            )
        except (MemoryLayerError, VectorStoreError) as error:
            _log.error("the memory could not be asked (%s)", type(error).__name__)
            return _Given(chat, turn, notes=(f"the memory could not be asked: {type(error).__name__}",))
        new = [item for item in found.items if "".join(item.text.split()) not in chat.said]
        count = default_counter().count
        block, items = context_block(new, heading=PROMPT_HEADING, tokens=opened.settings.hook_tokens, count=count)
        revisions = {item.id: found.revisions[item.id] for item in items}
        turn = replace(turn, block=block, items=items, revisions=revisions)
        self.keeper.note(turn)
        return _Given(chat.with_context(block), turn)

    async def _forwarded(
        self,
        upstream: Upstream,
        request: Request,
        body: bytes,
        opened: OpenedMemory,
        relay: Relay | None,
        turn: Turn | None,
    ) -> Response:
        """Send *body* to the model, and return its answer as it comes; *turn* is kept after it."""
        if self.client is None:
            self.client = make_http_client(opened.settings)
        query = f"?{request.url.query}" if request.url.query else ""
        url, headers = upstream.url(request.url.path) + query, upstream.headers(request.headers)
        async with AsyncExitStack() as stack:
            forwarding = self.client.forward(request.method, url, body or None, headers=headers)
            answer = await stack.enter_async_context(forwarding)
            passed, parts = dict(returned_headers(answer.headers)), answer.parts
            if relay is not None and answer.status == 200:
                if passed.get("content-type", "").startswith("text/event-stream"):
                    parts = relay.events(parts)
                else:
                    whole = relay.whole(b"".join([part async for part in parts]))
                    passed["content-length"], parts = str(len(whole)), _once(whole)
                if turn is not None:
                    parts = self._kept_after(parts, turn, relay, opened)
            return _Forwarded(parts, answer.status, passed, stack.pop_all())

    async def _kept_after(
        self, parts: AsyncIterator[bytes], turn: Turn, relay: Relay, opened: OpenedMemory
    ) -> AsyncIterator[bytes]:
        """Yield *parts*, and then keep *turn*; where the reader goes away, keep what has come."""
        keeping: asyncio.Task[None] | None = None
        try:
            async for part in parts:
                yield part
        finally:
            keeping = self._keep(opened, turn, relay)
        if keeping is not None:
            await asyncio.shield(keeping)

    def _keep(self, opened: OpenedMemory, turn: Turn, relay: Relay) -> asyncio.Task[None] | None:
        if opened.settings.hook_keep == "nothing" or not turn.prompt:
            return None
        reader = relay.reader
        answer = "" if reader.calls_tools else reader.text
        return self.keeper.keep(opened.memory, opened.settings, turn, answer, complete=reader.is_complete)


def _answered_by(
    answer: Callable[[Wire, Request], Awaitable[Response]], wire: Wire | None = None
) -> Callable[[Request], Awaitable[Response]]:
    """Return the route that *answer* answers; a refusal, or a model that is not reached, are errors of *wire*.

    Without *wire*, the headers of the request say which it is.
    """

    async def route(request: Request) -> Response:
        form = wire or (MESSAGES if "anthropic-version" in request.headers else CHAT_COMPLETIONS)
        try:
            return await answer(form, request)
        except Refusal as refusal:
            return JSONResponse(form.error(str(refusal), refusal.code), refusal.status)
        except HttpError as error:
            status = 504 if isinstance(error, HttpTimeout) else 502
            return JSONResponse(form.error(f"the model was not reached: {error}", "model_not_reached"), status)

    return route


class _Forwarded(StreamingResponse):
    """Answer in *parts* from a connection that is *closing* after it, however it ends."""

    def __init__(
        self, parts: AsyncIterator[bytes], status: int, headers: dict[str, str], closing: AsyncExitStack
    ) -> None:
        super().__init__(parts, status, headers)
        self._parts, self._closing = parts, closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        async with self._closing:
            try:
                await super().__call__(scope, receive, send)
            finally:
                if isinstance(self._parts, AsyncGenerator):
                    await self._parts.aclose()  # its last words are at once, not when it is collected


async def _once(part: bytes) -> AsyncIterator[bytes]:
    yield part


def _mode(request: Request) -> str:
    mode = request.headers.get(MEMORY_HEADER, "write").strip().lower()
    if mode not in _MODES:
        raise Refusal("memory", f"{MEMORY_HEADER}: one of {', '.join(_MODES)} is needed")
    return "off" if paused_since() is not None else mode


async def _still_holds(turn: Turn, opened: OpenedMemory) -> bool:
    """Return whether all that was shown in *turn* is there as it was: what was forgotten is not given again."""
    memories = await opened.memory.get(list(turn.revisions), namespace=opened.namespace)
    return turn.revisions == {memory.id: memory.revision for memory in memories if memory is not None}
