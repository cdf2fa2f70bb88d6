"""``tellback hook CLIENT EVENT``: the entry that a client calls; hidden. It reads the payload from standard input.

It fails open: whatever goes wrong, the client's work goes on, with nothing added.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from agent.assistant.cli.command_context import compute_in_one_thread, global_options, opened_memory, run
from agent.assistant.resident.host import current_folder


def hook(
    context: typer.Context,
    client: Annotated[str, typer.Argument(metavar="CLIENT", help="Which client calls.")],
    event: Annotated[str, typer.Argument(metavar="EVENT", help="Its event, by its own name.")],
) -> None:
    """Answer a hook of CLIENT: its payload comes on standard input, the reply goes to standard output."""
    compute_in_one_thread()
    from agent.assistant.hooks.hook_call import HookCall

    try:
        call = HookCall(client, event, read_payload(sys.stdin.buffer.read()), current_folder(), datetime.now(UTC))
        from agent.assistant.hooks.answer import HookSettings, answer_hook

        with opened_memory(context, create=True) as opened:
            settings = HookSettings(namespace=opened.namespace, share_sensitive=opened.settings.share_sensitive)
            reply = run(answer_hook(call, memory=opened.memory, settings=settings))
            sys.stdout.write(reply.stdout)
            sys.stdout.flush()
    except Exception:  # the border: a hook that fails must not stop its client
        if global_options(context).debug:
            raise


def read_payload(data: bytes) -> Mapping[str, Any]:
    """Return the JSON object that *data* holds; raise ``ValueError`` for anything else."""
    payload = json.loads(data.decode("utf-8", "replace"))
    if not isinstance(payload, dict):
        raise ValueError("a hook's payload is a JSON object")
    return payload
