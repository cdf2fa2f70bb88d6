"""Provider that runs a coding client's own command without a terminal: ``claude -p``, ``codex exec``, ``gemini -p``.

It costs no key: the client answers with the account that its user signed in with, and its limits. Instructions and
prompt go to its standard input, never to its arguments, which others may read. It runs in a folder of its own, where
hooks of this memory are off, with its own hooks, tools and servers off as far as it lets them be, and keeps no session
where it can do without. Flags and replies are those of Claude Code 2.1, Codex 0.169 and Gemini CLI 0.61.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tellback.agent.errors import ArgumentError, ProviderError
from tellback.agent.providers.base import Capabilities, Delta, Request, StopPiece, TextPiece, UsagePiece, check_request
from tellback.agent.results import StopReason, Usage

_SECONDS: Final = 300.0
_LONGEST_REPLY: Final = 4_000_000
"""Characters of output above which a command is broken."""
_POLICY: Final = "no-tools.toml"
_NO_TOOLS: Final = '[[rule]]\ntoolName = "*"\ndecision = "deny"\npriority = 999\n'
_ADDED: Final = {"NO_COLOR": "1", "CLAUDE_CODE_DISABLE_TERMINAL_TITLE": "1", "TELLBACK_HOOK_KEEP": "nothing"}
"""The title of a terminal would be one more request, with all of the words; our hooks keep nothing of the session."""
_NOT_HANDED_OVER: Final = ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT")
"""Variables by which Claude Code knows that it runs in itself, which it refuses: hooks and servers inherit them."""


@dataclass(frozen=True, slots=True)
class ClientCommand:
    """Command of a client: its *title*, the *program* with its *arguments*, and the flag that names a model.

    *overhead* says in words what it sends of its own with each call. *read* returns the answer and the usage that an
    output has; ``ValueError`` where it has none.
    """

    title: str
    program: str
    arguments: tuple[str, ...]
    read: Callable[[str], tuple[str, Usage]]
    overhead: str
    model_flag: str = "--model"
    ending: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """Command as a person would type it."""
        return " ".join((self.program, *self.arguments[:1]))


def _read_claude(output: str) -> tuple[str, Usage]:
    reply = json.loads(output)
    if reply.get("is_error") or not isinstance(reply.get("result"), str):
        raise ValueError(str(reply.get("subtype")))
    used = reply.get("usage") or {}
    new, written, read = (
        int(used.get(name) or 0) for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    )
    return reply["result"], Usage(new + written + read, int(used.get("output_tokens") or 0))


def _read_codex(output: str) -> tuple[str, Usage]:
    answer: str | None = None
    usage = Usage()
    for event in _json_lines(output):
        item = event.get("item") or {}
        if event.get("type") == "item.completed" and item.get("type") == "agent_message":
            answer = str(item.get("text") or "")
        elif event.get("type") == "turn.completed":
            used = event.get("usage") or {}
            usage = Usage(int(used.get("input_tokens") or 0), int(used.get("output_tokens") or 0))
    if answer is None:
        raise ValueError("no message")
    return answer, usage


def _read_gemini(output: str) -> tuple[str, Usage]:
    reply = json.loads(output[output.find("{") :])
    if not isinstance(reply.get("response"), str):
        raise ValueError("no response")
    models = ((reply.get("stats") or {}).get("models") or {}).values()
    tokens = [model.get("tokens") or {} for model in models]
    read = sum(int(used.get("prompt") or 0) for used in tokens)
    total = sum(int(used.get("total") or 0) for used in tokens)
    return reply["response"], Usage(read, max(total - read, 0))


def _json_lines(output: str) -> Iterator[dict[str, Any]]:
    for line in output.splitlines():
        with suppress(ValueError):
            event = json.loads(line)
            if isinstance(event, dict):
                yield event


CLIENT_COMMANDS: Final = {
    "claude-code": ClientCommand(
        "Claude Code",
        "claude",
        (
            *("-p", "--output-format", "json", "--tools", "", "--strict-mcp-config", "--no-session-persistence"),
            *("--settings", '{"disableAllHooks": true}', "--system-prompt", "You write what you are asked for."),
        ),
        _read_claude,
        "a few hundred more",
    ),
    "codex": ClientCommand(
        "Codex",
        "codex",
        ("exec", "--json", "--ephemeral", "--skip-git-repo-check", "--sandbox", "read-only"),
        _read_codex,
        "about 10,000 more",
        ending=("-",),
    ),
    "gemini-cli": ClientCommand(
        "Gemini CLI",
        "gemini",
        (
            *("-p", "Do what the text above says.", "--output-format", "json", "--extensions", "none", "--skip-trust"),
            *("--allowed-mcp-server-names", "none", "--policy", _POLICY),
        ),
        _read_gemini,
        "about 8,000 more",
    ),
}
"""Commands by the names that the clients have for ``tellback install``."""


class ClientCommandProvider:
    """Provider that answers by the command of the *client*, with its *model* (None: the one it is set to).

    It knows no tools, inputs or settings of a request. *folder* is where the command runs, made where it is missing; a
    file ``.tellback-off`` in it keeps hooks from storing what is sent.
    """

    remote = True
    capabilities = Capabilities(frozenset(), frozenset(), frozenset({"text"}), tools=False, tool_choices=frozenset())

    def __init__(self, client: str, *, model: str | None = None, folder: Path, seconds: float = _SECONDS) -> None:
        if client not in CLIENT_COMMANDS:
            raise ArgumentError("client", client, f"one of {', '.join(CLIENT_COMMANDS)} is needed")
        self.command = CLIENT_COMMANDS[client]
        self.model = model or ""
        self._folder, self._seconds = folder, seconds

    async def stream(self, request: Request) -> AsyncGenerator[Delta]:
        """Answer *request* with one run of the command."""
        check_request(request, self.capabilities, self.command.title)
        system, messages = request.system_and_messages()
        words = "\n\n".join(filter(None, (system, *(message.text for message in messages))))
        text, usage = await self._run(words)
        yield TextPiece(text)
        yield UsagePiece(usage)
        yield StopPiece(StopReason.STOP)

    async def _run(self, words: str) -> tuple[str, Usage]:
        """Give *words* to the command, and return its answer; nothing that it wrote is in an error."""
        command = self.command
        program = shutil.which(command.program)
        if program is None:
            raise ProviderError(f"the command {command.program} is not found", provider=command.title, transient=False)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self._folder / ".tellback-off").touch(mode=0o600)
        (self._folder / _POLICY).write_text(_NO_TOOLS, "ascii")
        chosen = (command.model_flag, self.model) if self.model else ()
        process = await asyncio.create_subprocess_exec(
            program,
            *command.arguments,
            *chosen,
            *command.ending,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=self._folder,
            env=_environment(),
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self._seconds):
                output, _ = await process.communicate(words.encode("utf-8", "replace"))
        except TimeoutError:
            problem = f"{command.shown} gave no answer in {self._seconds:g} seconds"
            raise ProviderError(problem, provider=command.title, transient=True) from None
        finally:
            if process.returncode is None:
                _end(process)
                await process.wait()
        try:
            if process.returncode or len(output) > _LONGEST_REPLY:
                raise ValueError("it failed")
            return command.read(output.decode("utf-8", "replace"))
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
            problem = f"{command.shown} ended with code {process.returncode} and no answer; run by hand, it says why"
            raise ProviderError(problem, provider=command.title, transient=False) from None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.command.program!r})"


def _environment() -> dict[str, str]:
    """Return the environment of the command: that of this process, without our own settings and marks of a client."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TELLBACK_")}
    return {name: value for name, value in kept.items() if name not in _NOT_HANDED_OVER} | _ADDED


def _end(process: asyncio.subprocess.Process) -> None:
    """End the command with the processes that it started."""
    import signal

    with suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
