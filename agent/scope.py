"""What a run shares with what it starts: its counts, its observers, its way to report, and who stands above it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from agent.approval import Approver
from agent.events import Event
from agent.hooks import Watch
from agent.ledger import Ledger
from agent.reading import Reading


def _unheard(event: Event) -> None:
    """Nobody listens to events."""


@dataclass(frozen=True, slots=True)
class RunScope:
    """*ledger* counts what is used, *watch* tells the hooks, *emit* puts an event into the run's stream, *approver*
    answers requests (None: whoever reads the stream, where *streams*), *lineage* are the agents above, outermost
    first, *timer* gives the seconds since the run began, *reading* knows whose words were read, *mark*
    is that of the recalled memories, which no result of a tool may show."""

    ledger: Ledger = field(default_factory=Ledger)
    watch: Watch = field(default_factory=Watch)
    emit: Callable[[Event], None] = _unheard
    approver: Approver | None = None
    streams: bool = False
    lineage: tuple[object, ...] = ()
    timer: Callable[[], float] = float
    reading: Reading = field(default_factory=Reading)
    mark: str = ""
