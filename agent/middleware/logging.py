"""Logging of tool calls: name, id, duration and outcome of each call. No arguments, and no secrets in tracebacks."""

from __future__ import annotations

import asyncio
import logging
import time

from tellback.agent.errors import StopRun, ToolFailed
from tellback.agent.middleware.base import ToolHandler, ToolInvocation
from tellback.agent.results import ErrorRecord
from tellback.agent.tools.base import ToolOutput

_log = logging.getLogger(__name__)


async def log_tool_call(invocation: ToolInvocation, proceed: ToolHandler) -> ToolOutput:
    """Log a call at debug level, a failure that the tool reports itself at info level, any other exception as a warning
    with its traceback; arguments and results may hold secrets and stay out."""
    call, began = invocation.call, time.perf_counter()
    try:
        output = await proceed(invocation)
    except asyncio.CancelledError:
        _log.info("tool %s (%s) was cancelled after %.3f s", call.name, call.id, time.perf_counter() - began)
        raise
    except (ToolFailed, StopRun) as error:
        took = time.perf_counter() - began
        _log.info("tool %s (%s) failed after %.3f s: %s", call.name, call.id, took, type(error).__name__)
        raise
    except Exception as error:
        took, record = time.perf_counter() - began, ErrorRecord.of(error)
        text = "tool %s (%s) failed after %.3f s: %s\n%s"
        _log.warning(text, call.name, call.id, took, record.type, record.traceback)
        raise
    _log.debug("tool %s (%s) took %.3f s", call.name, call.id, time.perf_counter() - began)
    return output
