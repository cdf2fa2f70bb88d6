"""Service of hooks: a call is answered, the reply sent, then the conversation is kept, and the run is logged."""

from __future__ import annotations

import time
from collections.abc import Callable

from tellback.agent.assistant.config import AssistantSettings
from tellback.agent.assistant.hooks.answer import answer_hook
from tellback.agent.assistant.hooks.capture import keep_hook
from tellback.agent.assistant.hooks.hook_call import HookCall, HookReply
from tellback.agent.assistant.hooks.run_log import HookRun, log_run, paused_since
from tellback.memory import LongTermMemory

_NO_REPLY = HookReply("")


async def serve_hook(
    call: HookCall, send: Callable[[HookReply], object], *, memory: LongTermMemory, settings: AssistantSettings
) -> None:
    """Answer *call*, *send* the reply, then keep the conversation, for which the client need not wait.

    A hook fails open: an exception is logged, not raised, and the reply is then empty.
    """
    began, sent, shown = time.monotonic(), False, 0
    try:
        if paused_since() is not None:
            sent = True
            send(_NO_REPLY)
            log_run(call.client, HookRun(at=call.received.isoformat(), event=call.event, outcome="paused"))
            return
        reply = await answer_hook(call, memory=memory, settings=settings)
        shown, sent = len(reply.shown), True
        send(reply)
        seconds = round(time.monotonic() - began, 3)
        kept = await keep_hook(call, reply, memory=memory, settings=settings)
    except Exception as error:  # the border: a hook that fails must not stop its client
        if not sent:
            send(_NO_REPLY)
        log_run(call.client, HookRun.failed(call, error, round(time.monotonic() - began, 3)))
    else:
        received = call.received.isoformat()
        log_run(
            call.client,
            HookRun(at=received, event=call.event, outcome="done", seconds=seconds, shown=shown, kept=kept.kept),
        )
