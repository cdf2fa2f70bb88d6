"""``tellback resident``, a hidden command: shows and ends the processes that stay to answer hooks."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer

from tellback.agent.assistant.cli.options import JsonOption
from tellback.agent.assistant.cli.output import format_count, print_json, print_text
from tellback.agent.assistant.resident import wire

_SECONDS_TO_ANSWER: Final = 2.0
_SECONDS_TO_END: Final = 15.0


def resident_reports(kind: str = "status") -> Iterator[dict[str, Any]]:
    """Yield the report of each resident of this user; with the *kind* "stop", each ends after its report.

    A report has the pid, the age in seconds, the seconds since the last request and after which it ends, the number of
    commands served, the bytes held, and the open memories. One with an address is ``tellback serve``, which goes on.
    """
    if not wire.available():
        return
    for path in wire.socket_paths(os.environ):
        connection = wire.connect(path, seconds=_SECONDS_TO_ANSWER)
        if connection is None:
            continue
        try:
            status, report = wire.ask(connection, f"/{kind}", {})
        except wire.WireError:
            yield {"outcome": "no answer", "socket": path}
        else:
            if status == 200:  # else its code was changed, as by an upgrade: it ends
                yield {**report, "socket": path}


def report_line(report: dict[str, Any]) -> str:
    """Return a report of a resident in one line."""
    if report["outcome"] != "done":
        return f"{report['socket']}: {report['outcome']}"
    megabytes, minutes, address = report["bytes"] / 1e6, report["age"] / 60, report["address"]
    end = f"`tellback serve` at {address}" if address else f"ends after {report['ends_after'] / 60:g} idle minutes"
    return (
        f"process {report['pid']}, {megabytes:.0f} MB, {minutes:.0f} minutes old, "
        f"{format_count(report['served'], 'request')} served; {end}"
    )


def status(context: typer.Context, json: JsonOption = False) -> None:
    """Show the processes that stay to answer hooks."""
    reports = [*resident_reports()]
    if json:
        print_json({"residents": reports})
        return
    for report in reports:
        print_text(report_line(report))
    if not reports:
        print_text("No resident process runs; the next hook starts one.")


def stop(context: typer.Context, json: JsonOption = False) -> None:
    """End the resident processes; nothing is lost, and the next hook starts another one."""
    reports = end_residents()
    if json:
        print_json({"residents": reports})
    else:
        print_text(f"{format_count(len(reports), 'resident process', 'resident processes')} ended.")


def end_residents() -> list[dict[str, Any]]:
    """End the residents of this user, wait until they have ended, and return their last reports; servers go on."""
    reports = [report for report in resident_reports("stop") if not report.get("address")]
    deadline = time.monotonic() + _SECONDS_TO_END
    while any(_runs(report.get("pid")) for report in reports) and time.monotonic() < deadline:
        time.sleep(0.02)
    return reports


def _runs(pid: int | None) -> bool:
    """Return whether the process *pid* still runs; one that ended and waits for its parent (Linux) does not."""
    try:
        os.kill(pid or 0, 0)
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(") ")[2][:1]
    except FileNotFoundError:
        return sys.platform != "linux"
    except OSError:
        return False
    return pid is not None and state != "Z"
