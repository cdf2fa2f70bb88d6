"""``tellback hook CLIENT EVENT``, the entry that a client calls (hidden), and ``tellback hooks pause`` and ``resume``.

A hook reads its payload from standard input, and fails open: whatever goes wrong, the client's work goes on, with
nothing added.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tellback.agent.assistant.cli.command_context import compute_in_one_thread, global_options, opened_memory, run
from tellback.agent.assistant.cli.options import JsonOption
from tellback.agent.assistant.cli.output import format_minute, print_json, print_text

if TYPE_CHECKING:
    from tellback.agent.assistant.hooks.hook_call import HookReply


def hook(
    context: typer.Context,
    client: Annotated[str, typer.Argument(metavar="CLIENT", help="Which client calls.")],
    event: Annotated[str, typer.Argument(metavar="EVENT", help="Its event, by its own name.")],
) -> None:
    """Answer a hook of CLIENT: its payload comes on standard input, the reply goes to standard output."""
    compute_in_one_thread()
    from tellback.agent.assistant.hooks.hook_call import HookCall
    from tellback.agent.assistant.hooks.run_log import HookRun, log_run

    call = HookCall(client, event, {}, "", datetime.now(UTC))
    try:
        call = HookCall(client, event, read_payload(sys.stdin.buffer.read()), _folder(), call.received)
        from tellback.agent.assistant.hooks.service import serve_hook

        with opened_memory(context, create=True) as opened:
            run(serve_hook(call, _write_reply, memory=opened.memory, settings=opened.settings))
    except Exception as error:  # the border: a hook that fails must not stop its client
        log_run(client, HookRun.failed(call, error, (datetime.now(UTC) - call.received).total_seconds()))
        if global_options(context).debug:
            raise


def read_payload(data: bytes) -> Mapping[str, Any]:
    """Return the JSON object that *data* holds; raise ``ValueError`` for anything else."""
    payload = json.loads(data.decode("utf-8", "replace"))
    if not isinstance(payload, dict):
        raise ValueError("a hook's payload is a JSON object")
    return payload


def _folder() -> str:
    """Return the working directory; "" where it was removed, such as that of a former git worktree."""
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return ""


def _write_reply(reply: HookReply) -> None:
    sys.stdout.write(reply.stdout)
    sys.stdout.flush()


def pause(context: typer.Context, json: JsonOption = False) -> None:
    """Pause the hooks in all clients: nothing is added or kept.

    It lasts until `tellback hooks resume`. In one project, a file `.tellback-off` in its folder does the same.
    """
    from tellback.agent.assistant.hooks import run_log

    run_log.pause()
    if json:
        print_json({"paused_since": run_log.paused_since()})
    else:
        print_text("hooks are paused: nothing is added or kept in any client; `tellback hooks resume` has them go on")


def resume(context: typer.Context, json: JsonOption = False) -> None:
    """Have the hooks in all clients go on after a pause."""
    from tellback.agent.assistant.hooks import run_log

    since = run_log.paused_since()
    run_log.resume()
    if json:
        print_json({"was_paused_since": since})
    else:
        print_text("hooks were not paused" if since is None else f"hooks go on; paused since {format_minute(since)}")
