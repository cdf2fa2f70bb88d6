"""Cost of the agent's loop by itself: per turn, per streamed token, to the first token; beside its peers.

No model and no network: the same bytes of a streamed Chat Completion come from memory, so that what is left is the
work of each library. ``scripted`` rows leave HTTP out too.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from benchmarks import about
from benchmarks.figure import Figure, keep, show, times
from tellback.agent import Agent, OpenAICompatibleProvider, StopPiece, StopReason, TextDelta, TextPiece
from tellback.memory import Memory, open_memory
from tellback.memory.http import HttpClient

LONG = 300
"""Tokens of the long answer, from which the cost of one token is computed."""
_BOUNDS = {
    ("tellback, scripted", "a turn"): 1.0,
    ("tellback, scripted, memory on", "a turn"): 6.0,
    ("tellback, scripted", "one token more"): 30.0,
}
"""Most milliseconds of a turn and microseconds of a token, of one run alone."""
_PACKAGES = ("tellback", "openai", "pydantic-ai-slim", "openai-agents", "httpx", "pydantic")

Stream = Callable[[], AsyncIterator[Any]]
"""Function that streams the events of one turn."""
Library = tuple[Stream, Callable[[Any], bool]]
"""What streams a turn, and the judgement of whether an event is the first token."""


def stream_of(tokens: int) -> list[bytes]:
    """Return a streamed Chat Completion of *tokens* tokens, one chunk each."""

    def chunk(delta: dict[str, Any], reason: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        same = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        return b"data: " + json.dumps({**same, "choices": [choice], **more}).encode() + b"\n\n"

    usage = {"prompt_tokens": 9, "completion_tokens": tokens, "total_tokens": 9 + tokens}
    last = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [], "usage": usage}
    return [
        chunk({"role": "assistant", "content": ""}),
        *(chunk({"content": f"word{number} "}) for number in range(tokens)),
        chunk({}, "stop"),
        b"data: " + json.dumps(last).encode() + b"\n\n",
        b"data: [DONE]\n\n",
    ]


class Scripted:
    """A provider without HTTP."""

    def __init__(self, tokens: int) -> None:
        self._pieces = [TextPiece(f"word{number} ") for number in range(tokens)]

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        """Stream the answer."""
        for piece in self._pieces:
            yield piece
        yield StopPiece(StopReason.STOP)


def transport(kind: Any, chunks: list[bytes]) -> Any:
    """Return a transport of httpx or its successor (*kind*) that answers every request with *chunks*."""

    async def body() -> AsyncIterator[bytes]:
        for part in chunks:
            yield part

    def answer(request: Any) -> Any:
        return kind.Response(200, headers={"content-type": "text/event-stream"}, content=body())

    return kind.MockTransport(answer)


def _ours(agent: Agent) -> Library:
    return lambda: agent.stream("Say it.", store=True), lambda event: isinstance(event, TextDelta)


async def tellback_scripted(tokens: int, stack: AsyncExitStack) -> Library:
    """Our loop, without HTTP and without memory."""
    return _ours(Agent(Scripted(tokens)))


async def tellback_memory(tokens: int, stack: AsyncExitStack) -> Library:
    """Our loop with a memory of a thousand entries: each turn is recalled for, and stored durably."""
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    memory = await stack.enter_async_context(open_memory(Path(folder, "m.db")))
    await memory.remember_many([Memory(text=f"Fact {number}: word{number} is a word.") for number in range(1000)])
    return _ours(Agent(Scripted(tokens), memory=memory))


async def tellback_http(tokens: int, stack: AsyncExitStack) -> Library:
    """Our loop with our provider for OpenAI's format."""
    import httpx

    client = HttpClient(transport=transport(httpx, stream_of(tokens)))
    await stack.enter_async_context(client)
    return _ours(Agent(OpenAICompatibleProvider("http://127.0.0.1/v1", "m", client=client)))


def _openai(tokens: int, stack: AsyncExitStack) -> Any:
    import httpx2
    import openai

    http = httpx2.AsyncClient(transport=transport(httpx2, stream_of(tokens)))
    client = openai.AsyncOpenAI(base_url="http://127.0.0.1/v1", api_key="k", http_client=http)
    stack.push_async_callback(client.close)
    return client


async def bare_openai(tokens: int, stack: AsyncExitStack) -> Library:
    """The official client alone: no loop, no tools, no events."""
    chat = _openai(tokens, stack).chat.completions

    async def chunks() -> AsyncIterator[Any]:
        messages = [{"role": "user", "content": "Say it."}]
        async for chunk in await chat.create(model="m", messages=messages, stream=True):
            yield chunk

    return chunks, lambda chunk: bool(chunk.choices and chunk.choices[0].delta.content)


async def pydantic_ai(tokens: int, stack: AsyncExitStack) -> Library:
    """pydantic-ai over the official client."""
    from pydantic_ai import Agent as Peer
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    agent = Peer(OpenAIChatModel("m", provider=OpenAIProvider(openai_client=_openai(tokens, stack))))

    async def texts() -> AsyncIterator[str]:
        async with agent.run_stream("Say it.") as run:
            async for text in run.stream_text(delta=True, debounce_by=None):
                yield text

    return texts, bool


async def openai_agents(tokens: int, stack: AsyncExitStack) -> Library:
    """The OpenAI Agents SDK over the official client, tracing off."""
    from agents import Agent as Peer
    from agents import OpenAIChatCompletionsModel, RunConfig, Runner

    agent = Peer(name="a", model=OpenAIChatCompletionsModel(model="m", openai_client=_openai(tokens, stack)))
    config = RunConfig(tracing_disabled=True)
    return (
        lambda: Runner.run_streamed(agent, "Say it.", run_config=config).stream_events(),
        lambda event: event.type == "raw_response_event" and event.data.type == "response.output_text.delta",
    )


LIBRARIES: dict[str, Callable[[int, AsyncExitStack], Awaitable[Library]]] = {
    "tellback, scripted": tellback_scripted,
    "tellback, scripted, memory on": tellback_memory,
    "tellback": tellback_http,
    "openai alone": bare_openai,
    "pydantic-ai": pydantic_ai,
    "openai-agents": openai_agents,
}


async def first_token(library: Library) -> float:
    """Run one turn and return the seconds to its first token."""
    stream, is_first = library
    began, first = time.perf_counter(), 0.0
    async for event in stream():
        if not first and is_first(event):
            first = time.perf_counter() - began
    return first


async def measured(library: Library, runs: int, turns: int) -> tuple[list[float], list[float]]:
    """Return the seconds per turn and to the first token of *turns* turns, *runs* at once."""
    per_turn: list[float] = []
    firsts: list[float] = []
    for _ in range(max(turns // runs, 1)):
        began = time.perf_counter()
        firsts += await asyncio.gather(*(first_token(library) for _ in range(runs)))
        per_turn.append((time.perf_counter() - began) / runs)
    return per_turn, firsts


async def compare(runs: int, *, repeats: int, say: Callable[[str], None]) -> list[Figure]:
    """Measure every library that is installed, interleaved, *repeats* times."""
    async with AsyncExitStack() as stack:
        turns: dict[str, tuple[Library, Library]] = {}
        for name, make in LIBRARIES.items():
            try:
                turns[name] = (await make(1, stack), await make(LONG, stack))
            except ImportError as error:
                say(f"{name}: not installed ({error.name})")
        samples: dict[str, tuple[list[float], list[float], list[float]]] = {name: ([], [], []) for name in turns}
        for repeat in range(repeats + 1):
            for name, (short, long) in turns.items():
                gc.collect()
                per_turn, firsts = await measured(short, runs, max(20, runs))
                longer, _ = await measured(long, runs, max(10, runs))
                if repeat:  # the first round warms up
                    samples[name][0].extend(per_turn)
                    samples[name][1].extend(firsts)
                    per_token = (statistics.median(longer) - statistics.median(per_turn)) / (LONG - 1)
                    samples[name][2].append(per_token)
            say(f"{runs} at once: round {repeat} of {repeats}")
    return list(_figures(samples, runs))


def _figures(samples: dict[str, tuple[list[float], list[float], list[float]]], runs: int) -> Iterator[Figure]:
    """Yield a line a library for each measure, so that what is compared stands together."""
    for place, (measure, unit) in enumerate((("a turn", "ms"), ("to the first token", "ms"), ("one token more", "µs"))):
        for name, of_library in samples.items():
            bound = _BOUNDS.get((name, measure)) if runs == 1 else None
            yield times(f"{measure}: {name}", runs, of_library[place], bound, unit)


def add_command(commands: Any) -> None:
    """Put ``loop`` among the *commands* of the command line."""
    parser = commands.add_parser("loop", help="what the agent's loop costs by itself, beside its peers")
    parser.add_argument("--runs", default="1,10,100", help="numbers of runs at once, comma-separated")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace, words: Sequence[str], say: Callable[[str], None]) -> int:
    """Measure and print; return the exit code."""
    os.environ.setdefault("OPENAI_AGENTS_DISABLE_TRACING", "1")
    made, figures = about.circumstances(words, _PACKAGES), list[Figure]()
    for runs in map(int, given.runs.split(",")):
        figures += asyncio.run(compare(runs, repeats=given.repeats, say=say))
    show("The loop's own cost", "runs", figures, made)
    keep(given.json, figures, made)
    return 0
