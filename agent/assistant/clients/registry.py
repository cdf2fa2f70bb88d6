"""Table of clients: the files of their settings, their hooks and transcripts.

Sources of hooks: the types of `@anthropic-ai/claude-agent-sdk` 0.3.330, payloads recorded with Claude Code 2.1.287 and
its changelog up to 2.1.240; openai/codex, ``codex-rs/hooks/src/schema.rs`` at 2219e3d and
``events/user_prompt_submit.rs`` at 0082977, and its pages as read on 2026-10-04; google-gemini/gemini-cli at 5411f11,
``docs/hooks/reference.md``; cursor.com/docs/agent/hooks as noted on 2026-05-27, and DietrichGebert/ponytail
``docs/cursor-hooks.md`` of 2026-09-14 for the context of a prompt, which that page does not list.

Sources of servers, as read in November 2026: vscode-docs ``mcp-configuration.md``, zed.dev/docs/ai/mcp, docs.cline.bot,
jetbrains.com/help/junie, lmstudio.ai/mcp, `@opencode-ai/sdk` 1.19.3; for Claude Desktop and Windsurf, which are
documented in part, what several users' files agree on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from tellback.agent.assistant.clients import (
    claude_code_transcripts,
    codex_transcripts,
    cursor_transcripts,
    gemini_transcripts,
)
from tellback.agent.assistant.clients.client import Client, HookClient
from tellback.agent.assistant.clients.config_files import application_folder, config_folder
from tellback.agent.assistant.clients.cursor_database import composers, editor_database
from tellback.agent.assistant.clients.hook_payload import HookMoment, PayloadForm, context_reply, cursor_reply
from tellback.agent.assistant.clients.registration import HookFile
from tellback.memory import ArgumentError

ClientT = TypeVar("ClientT", bound=Client)


def _moments(start: str, prompt: str, turn_end: str, compaction: str) -> dict[str, HookMoment]:
    """Return the moment of each event, by the client's names."""
    return {
        start: HookMoment.SESSION_START,
        prompt: HookMoment.PROMPT,
        turn_end: HookMoment.TURN_END,
        compaction: HookMoment.COMPACTION,
    }


def _named_or(variable: str, *parts: str) -> Path:
    """Return the path in the environment's *variable*, else the one of *parts* in the home folder."""
    named = os.environ.get(variable)
    return Path(named).expanduser() if named else Path.home().joinpath(*parts)


def _at_home(*parts: str) -> Callable[[], Path]:
    return lambda: Path.home().joinpath(*parts)


_claude_folder = partial(_named_or, "CLAUDE_CONFIG_DIR", ".claude")
_codex_folder = partial(_named_or, "CODEX_HOME", ".codex")
_CLAUDE_MOMENTS: Final = _moments("SessionStart", "UserPromptSubmit", "Stop", "PreCompact")
_CLAUDE_STARTS: Final = ("startup", "clear", "compact")
"""Starts after which the model has not read the briefing; a resumed or forked session still has it."""

HOOK_CLIENTS: Final = (
    HookClient(
        name="claude-code",
        title="Claude Code",
        documented="hooks of Claude Code 2.1.240 to 2.1.287 (Agent SDK 0.3.330), MCP servers of user scope",
        home=_claude_folder,
        # The user's scope is beside the client's folder or, where that was moved, in it.
        server_path=lambda: _named_or("CLAUDE_CONFIG_DIR") / ".claude.json",
        server_fields={"type": "stdio"},
        hooks=HookFile(Path("settings.json"), _CLAUDE_MOMENTS, start_matcher="|".join(_CLAUDE_STARTS)),
        off_switch="disableAllHooks",
        payload=PayloadForm(turn="prompt_id", answer="last_assistant_message", fresh_starts=_CLAUDE_STARTS),
        transcripts_in=("projects/*/*.jsonl",),
        transcript_names=("*.jsonl",),
        read_transcript=claude_code_transcripts.read_transcript,
        skill="skills/tellback/SKILL.md",
    ),
    HookClient(
        name="codex",
        title="Codex CLI",
        documented="hooks of openai/codex at 2219e3d (2026), sessions of CLI 0.149, MCP servers of 0.159",
        notes=("Codex runs a new or changed hook only once you trust it: type /hooks in Codex",),
        home=_codex_folder,
        server_path=lambda: _codex_folder() / "config.toml",
        server_key="mcp_servers",
        server_form="toml",
        hooks=HookFile(Path("hooks.json"), _CLAUDE_MOMENTS, start_matcher="|".join(_CLAUDE_STARTS)),
        payload=PayloadForm(turn="turn_id", answer="last_assistant_message", fresh_starts=_CLAUDE_STARTS),
        transcripts_in=tuple(
            f"{folder}/**/rollout-*.{suffix}"
            for folder in ("sessions", "archived_sessions")
            for suffix in ("jsonl", "jsonl.zst")
        ),
        transcript_names=("rollout-*.jsonl", "rollout-*.jsonl.zst"),
        read_transcript=codex_transcripts.read_transcript,
    ),
    HookClient(
        name="gemini-cli",
        title="Gemini CLI",
        documented="google-gemini/gemini-cli at 5411f11 (2026-08-21)",
        home=_at_home(".gemini"),
        server_path=_at_home(".gemini", "settings.json"),
        hooks=HookFile(
            Path("settings.json"),
            _moments("SessionStart", "BeforeAgent", "AfterAgent", "PreCompress"),
            fields={"name": "tellback"},
            in_milliseconds=True,
        ),
        payload=PayloadForm(turn="", answer="prompt_response", fresh_starts=("startup", "clear")),
        reply=partial(context_reply, otherwise="{}"),  # the client expects one JSON object from every hook
        transcripts_in=("tmp/*/chats/session-*.json", "tmp/*/chats/session-*.jsonl"),  # those of sub-agents lie below
        transcript_names=("session-*.json", "session-*.jsonl"),
        read_transcript=gemini_transcripts.read_transcript,
    ),
    # The context of a session's start is lost in many versions, up to 3.6.31 at least: it is given at prompts again.
    HookClient(
        name="cursor",
        title="Cursor",
        documented="hooks of cursor.com/docs/agent/hooks (2026-05-27; prompt context of 3.20.17), MCP of October 2026",
        home=_at_home(".cursor"),
        server_path=_at_home(".cursor", "mcp.json"),
        hooks=HookFile(
            Path("hooks.json"),
            _moments("sessionStart", "beforeSubmitPrompt", "stop", "preCompact"),
            head={"version": 1},
            grouped=False,
        ),
        payload=PayloadForm(turn="generation_id", session="conversation_id"),
        reply=cursor_reply,
        transcripts_in=("projects/*/agent-transcripts/*/*.jsonl",),
        transcript_names=("*.jsonl",),
        read_transcript=cursor_transcripts.read_transcript,
        archive=editor_database,
        read_archive=composers,
    ),
)


def _opencode_settings() -> Path:
    folder = config_folder() / "opencode"
    with_comments = folder / "opencode.jsonc"
    return _named_or("OPENCODE_CONFIG", str(with_comments if with_comments.exists() else folder / "opencode.json"))


CLIENTS: Final[tuple[Client, ...]] = (
    *HOOK_CLIENTS,
    Client(
        name="claude-desktop",
        title="Claude Desktop",
        documented="claude_desktop_config.json of 2026",
        server_path=lambda: application_folder("Claude") / "claude_desktop_config.json",
        notes=("quit Claude Desktop and start it anew",),
    ),
    Client(
        name="vscode",
        title="VS Code",
        documented="mcp.json of the user's profile, vscode-docs of 2026-07-29",
        server_path=lambda: application_folder("Code") / "User" / "mcp.json",
        server_key="servers",
        server_fields={"type": "stdio"},
    ),
    Client(
        name="windsurf",
        title="Windsurf",
        documented="mcp_config.json as of 2026-10-29",
        server_path=_at_home(".codeium", "windsurf", "mcp_config.json"),
    ),
    Client(
        name="zed",
        title="Zed",
        documented="context_servers, zed.dev/docs/ai/mcp of 2026",
        server_path=lambda: (
            (application_folder("Zed") if os.name == "nt" else config_folder() / "zed") / "settings.json"
        ),
        server_key="context_servers",
    ),
    Client(
        name="copilot-cli",
        title="GitHub Copilot CLI",
        documented="mcp-config.json, code.visualstudio.com of 2026",
        server_path=lambda: _named_or("COPILOT_HOME", ".copilot") / "mcp-config.json",
    ),
    Client(
        name="cline",
        title="Cline (command line)",
        documented="cline_mcp_settings.json, docs.cline.bot of 2026",
        server_path=partial(
            _named_or, "CLINE_MCP_SETTINGS_PATH", ".cline", "data", "settings", "cline_mcp_settings.json"
        ),
    ),
    Client(
        name="junie",
        title="JetBrains Junie",
        documented="mcp.json, jetbrains.com/help/junie of 2026",
        server_path=_at_home(".junie", "mcp", "mcp.json"),
    ),
    Client(
        name="lm-studio",
        title="LM Studio",
        documented="mcp.json of LM Studio 0.3.17 and later",
        server_path=_at_home(".lmstudio", "mcp.json"),
    ),
    Client(
        name="opencode",
        title="opencode",
        documented="opencode.json of @opencode-ai/sdk 1.19.3",
        server_path=_opencode_settings,
        server_key="mcp",
        server_fields={"type": "local", "enabled": True},
        merged_command=True,
    ),
)


def client_named(name: str) -> Client:
    """Return the client of that *name*; an unknown one raises ``ArgumentError``."""
    return _named(name, CLIENTS)


def hook_client(name: str) -> HookClient:
    """Return the client with hooks of that *name*; an unknown one raises ``ArgumentError``."""
    return _named(name, HOOK_CLIENTS)


def _named(name: str, clients: Sequence[ClientT]) -> ClientT:
    for client in clients:
        if client.name == name:
            return client
    raise ArgumentError("client", name, f"one of {', '.join(client.name for client in clients)} is needed")
