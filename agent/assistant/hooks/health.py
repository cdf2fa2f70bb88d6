"""Health of a client's hooks: registered, startable, called, and not failing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Final

from tellback.agent.assistant.clients.client import HookClient
from tellback.agent.assistant.clients.registration import program_of
from tellback.agent.assistant.hooks.run_log import HookRun, read_runs

_SILENCE: Final = timedelta(minutes=10)
"""Time by which a transcript may be newer than the last run: it is written while a model works."""


@dataclass(frozen=True, slots=True)
class HookHealth:
    """Health of a client's hooks: whether they are *fine*, what was *seen*, and the *remedy*."""

    fine: bool
    seen: str
    remedy: str = ""


def hook_health(client: HookClient) -> HookHealth | None:
    """Return the health of our hooks in *client*; None where none is registered."""
    hooks = client.hook_file
    install = f"`tellback install {client.name}` writes it anew"
    try:
        registered = hooks.registered(client.name)
        switched_off = client.hooks_are_off()
    except (OSError, ValueError) as error:
        return HookHealth(False, f"{hooks.path} cannot be read: {error}", "mend that file")
    if not registered:
        return None
    for event, command in registered.items():
        program = program_of(command)
        if not (program.is_file() and os.access(program, os.X_OK)):
            return HookHealth(False, f"{event} starts {program}, which is not there", install)
    if missing := [event for event in client.hooks.events if event not in registered]:
        return HookHealth(False, f"not registered for {', '.join(missing)}", install)
    if switched_off:
        return HookHealth(False, f"the client calls no hook: {switched_off}", "take that setting out")
    return _called(client, read_runs(client.name))


def _called(client: HookClient, runs: Sequence[HookRun]) -> HookHealth:
    failed = [*takewhile(lambda run: run.outcome == "failed", reversed(runs))]
    if failed:
        last = failed[0]
        seen = f"failed {len(failed)} times in a row, last at {last.at[:16]} ({last.event}): {last.error}"
        return HookHealth(False, seen, f"try it: tellback --debug hook {client.name} {last.event} < PAYLOAD")
    called = max((datetime.fromisoformat(run.at) for run in runs), default=None)
    newest = max((path.stat().st_mtime for path in client.transcripts()), default=None)
    newest_conversation = None if newest is None else datetime.fromtimestamp(newest, UTC)
    registered_at = _registered_at(client)
    if newest_conversation is not None and newest_conversation > max(filter(None, (called, registered_at))) + _SILENCE:
        seen = f"not called in the conversation of {newest_conversation:%Y-%m-%dT%H:%M}" + (
            f"; last called at {called:%Y-%m-%dT%H:%M}" if called else "; never called"
        )
        return HookHealth(False, seen, "; ".join((*client.notes, "start the client anew")))
    if called is None:
        return HookHealth(True, "registered; not called yet", "; ".join(client.notes))
    durations = [run.seconds for run in runs if run.outcome == "done"]
    slowest = f", {max(durations):.1f} s at most" if durations else ""
    return HookHealth(True, f"last called at {called:%Y-%m-%dT%H:%M}{slowest}")


def _registered_at(client: HookClient) -> datetime:
    return datetime.fromtimestamp(client.hook_file.path.stat().st_mtime, UTC)
