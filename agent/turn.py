"""One run's own values: the prompt, the session, the clock, and what was warned of. Does no work."""

from __future__ import annotations

import asyncio
import secrets
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from agent.errors import ArgumentError
from agent.events import Warned
from memory import Block, Clock, Message


def new_session() -> str:
    """Return an id for a new session."""
    return str(uuid.uuid4())


def new_seed() -> str:
    """Return a secret from which the marks around recalled memories are made."""
    return secrets.token_hex(16)


class Turn:
    """One turn on its way: what is asked, where it belongs, how long it may take."""

    def __init__(
        self, prompt: Message, session: str, stores: bool, deadline: float | None, timer: Callable[[], float]
    ) -> None:
        self.prompt, self.session, self.stores = prompt, session, stores
        self.warnings: list[str] = []
        self.ends: float | None = None
        self._deadline, self._clock, self._began = deadline, timer, 0.0

    def begin(self, latest: float | None = None) -> None:
        """Start counting: a stream may be made long before it is read. It ends no later than *latest*, in the event
        loop's time."""
        self._began = self._clock()
        self.ends = latest
        if self._deadline is not None:
            own = asyncio.get_running_loop().time() + self._deadline
            self.ends = own if latest is None else min(own, latest)

    def timer(self) -> float:
        """Return the seconds since the run began."""
        return self._clock() - self._began

    def stamp(self, agent: str) -> dict[str, Any]:
        """Return what every event carries."""
        return {"agent": agent, "elapsed": self.timer()}

    def warned(self, agent: str, text: str) -> Warned:
        """Note a warning for the result, and return its event."""
        self.warnings.append(text)
        return Warned(text, **self.stamp(agent))


def prompt_message(prompt: str | Sequence[Block], clock: Clock) -> Message:
    """Return *prompt* as the user's message, if it can be answered."""
    blocks = prompt if isinstance(prompt, str) else tuple(prompt)
    if not blocks or (isinstance(blocks, str) and not blocks.strip()):
        raise ArgumentError("prompt", prompt, "something to answer is needed")
    message = Message.user(blocks, at=clock())
    try:
        message.text.encode()
    except UnicodeEncodeError as error:
        raise ArgumentError("prompt", prompt, "must not contain lone surrogates") from error
    wrong = [block for block in message.blocks if block.type not in ("text", "image", "document")]
    if wrong:
        raise ArgumentError("prompt", wrong[0], "text, image and document blocks are needed")
    return message


def checked_deadline(seconds: float | None) -> float | None:
    """Return *seconds* if a run can be given them."""
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0):
        raise ArgumentError("deadline", seconds, "a number of seconds above 0 is needed, or None")
    return seconds
