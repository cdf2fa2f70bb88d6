"""Durable runs: a run of an agent is a job, and goes on where the worker before it was killed.

Replies of the model and results of tools are recorded as they come, and given again instead of asked for again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Any, Final, get_args

from pydantic import TypeAdapter

from tellback.agent.agent import Agent
from tellback.agent.errors import ArgumentError, ToolFailed
from tellback.agent.middleware.base import ModelHandler, ToolHandler, ToolInvocation
from tellback.agent.providers.base import Delta, Request, WaitPiece
from tellback.agent.tools.base import ToolContext, ToolOutput
from tellback.memory import DocumentBlock, ImageBlock, LongTermMemory, TextBlock
from tellback.memory.jobs import ClaimedJob, JobHandler

AGENT_RUN: Final = "agent run"
_PIECES: Final = {kind.__name__: TypeAdapter(kind) for kind in get_args(Delta)}
_OUTPUT: Final[TypeAdapter[ToolOutput]] = TypeAdapter(str | list[TextBlock | ImageBlock | DocumentBlock])
_INTERRUPTED: Final = (
    "A worker was killed while this call was made: it may have been done, and is not repeated by itself. Find out"
    " whether it was done; call again only if it was not."
)


class DurableRun:
    """Middleware of the one run that the job *claimed* stands for: ``model`` and ``tool``, around the calls of each.

    A tool whose annotations do not say that it is idempotent is not called again where its call was begun and has no
    result: the model is told so. A call that it then makes is a new one.
    """

    def __init__(self, claimed: ClaimedJob) -> None:
        self._claimed = claimed
        self._replies = 0
        self._calls: Counter[str] = Counter()

    async def model(self, request: Request, context: ToolContext, proceed: ModelHandler) -> AsyncIterator[Delta]:
        """Yield the recorded reply, or the model's, and record it when it is whole."""
        self._replies += 1
        name = f"reply {self._replies}"
        if (recorded := await asyncio.to_thread(self._claimed.recorded, name)) is not None:
            for kind, value in recorded:
                yield _PIECES[kind].validate_python(value)
            return
        pieces: list[Any] = []
        async for piece in proceed(request):
            kind = type(piece).__name__
            if not isinstance(piece, WaitPiece):
                pieces.append((kind, _PIECES[kind].dump_python(piece, mode="json")))
            yield piece
        await asyncio.to_thread(self._claimed.end, name, pieces)

    async def tool(self, invocation: ToolInvocation, proceed: ToolHandler) -> ToolOutput:
        """Return the recorded output, or call the tool and record it."""
        name = self._name_of(invocation)
        if (recorded := await asyncio.to_thread(self._claimed.recorded, name)) is not None:
            if "failed" in recorded:
                raise ToolFailed(recorded["failed"])
            return _OUTPUT.validate_python(recorded["output"])
        is_first = await asyncio.to_thread(self._claimed.begin, name)
        try:
            if not is_first and not invocation.annotations.idempotent:
                raise ToolFailed(_INTERRUPTED)
            output = await proceed(invocation)
        except ToolFailed as error:
            await asyncio.to_thread(self._claimed.end, name, {"failed": str(error)})
            raise
        await asyncio.to_thread(self._claimed.end, name, {"output": _OUTPUT.dump_python(output, mode="json")})
        return output

    def _name_of(self, invocation: ToolInvocation) -> str:
        """Return the same name for the same call in every worker: ids of calls may be made up anew."""
        call = invocation.call
        arguments = json.dumps(call.arguments, sort_keys=True, default=str)
        digest = hashlib.sha256(f"{call.name}\0{arguments}".encode()).hexdigest()[:16]
        name = f"call {invocation.context.step} {call.name} {digest}"
        self._calls[name] += 1
        return f"{name} {self._calls[name]}"


def run_handler(memory: LongTermMemory, make_agent: Callable[[DurableRun], Agent]) -> JobHandler:
    """Return the handler of jobs of the kind ``AGENT_RUN``, whose payload has a *prompt* and may name a *session* and a
    *namespace*.

    *make_agent* makes the agent of one run over *memory*, with the run's ``model`` as the last of its model middleware
    and its ``tool`` as the last of its policy's. The turn is kept once, and turns of a session wait for each other.
    """

    async def handle(claimed: ClaimedJob) -> None:
        prompt, session, namespace = _checked(claimed)
        turn = memory.database.hold(f"turn of {namespace}\0{session}", wait=300.0)
        await asyncio.to_thread(turn.__enter__)
        try:
            load = partial(memory.conversations.load, session, namespace=namespace)
            if await asyncio.to_thread(claimed.begin, "history"):
                kept = await load()
                last = max((stored.sequence for stored in kept), default=0)
                await asyncio.to_thread(claimed.end, "history", last)
            last = await asyncio.to_thread(claimed.recorded, "history") or 0
            is_kept = any(stored.message.text == prompt for stored in await load(after=last))
            async with make_agent(DurableRun(claimed)) as agent:
                await agent.run(prompt, session=session, namespace=namespace, store=not is_kept)
        finally:
            await asyncio.to_thread(turn.__exit__, None, None, None)

    return handle


def _checked(claimed: ClaimedJob) -> tuple[str, str, str]:
    given: Mapping[str, Any] = claimed.job.payload
    values = given.get("prompt"), given.get("session") or f"job {claimed.job.id}", given.get("namespace", "")
    if not all(isinstance(value, str) for value in values) or not values[0]:
        raise ArgumentError("payload", given, 'texts are needed: {"prompt": …, "session": …, "namespace": …}')
    prompt, session, namespace = values
    return str(prompt), str(session), str(namespace)
