"""The time as a tool."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field

from agent.errors import ToolFailed
from agent.tools.function import FunctionTool
from memory import Clock, system_clock


def clock(now: Clock = system_clock) -> FunctionTool:
    """Return a tool that tells date and time; *now* is where they come from."""
    return FunctionTool(_telling(now), name="current_time", idempotent=True)


def _telling(now: Clock) -> Callable[..., str]:
    def current_time(
        zone: Annotated[str, Field(description="Time zone such as Europe/Lisbon; empty for UTC.")] = "",
    ) -> str:
        """Tell the present date, weekday and time."""
        moment: datetime = now()
        if zone:
            try:
                moment = moment.astimezone(ZoneInfo(zone))
            except (ZoneInfoNotFoundError, ValueError, OSError) as error:
                raise ToolFailed(f"there is no time zone {zone!r}; names are such as Europe/Lisbon") from error
        return f"{moment:%A}, {moment.isoformat(timespec='seconds')}"

    return current_time
