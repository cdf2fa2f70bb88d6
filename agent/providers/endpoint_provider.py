"""What every provider of an endpoint does alike: check, ask, read, close. A format says how it asks and reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any, Protocol

from agent.providers.capabilities import Capabilities, check_request
from agent.providers.protocol import Delta, Request, Stop
from agent.providers.wire import Endpoint, checked_model
from memory import is_loopback


class Reader(Protocol):
    """Reads one reply, frame by frame: *done* once the server has said that nothing more comes."""

    @property
    def done(self) -> bool:
        """Whether nothing more comes."""
        ...

    def read(self, frame: Any) -> Iterator[Delta]:
        """Yield what one frame says; raise ``ProviderError`` where it is an error or cannot be read."""
        ...

    def finish(self) -> Stop:
        """Return why the reply ended; raise where it broke off."""
        ...


class EndpointProvider(ABC):
    """A provider that asks *model* at *endpoint*."""

    def __init__(self, endpoint: Endpoint, model: str) -> None:
        self._endpoint = endpoint
        self._model = checked_model(model)

    @property
    def remote(self) -> bool:
        """Whether what is asked leaves this machine: anywhere but to its own address."""
        return not is_loopback(self._endpoint.url)

    @property
    def model(self) -> str:
        """The model that is asked."""
        return self._model

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What the format can say."""

    @abstractmethod
    def _asked(self, request: Request) -> tuple[AsyncGenerator[Any, None], Reader]:
        """Return the frames of the answer to *request*, and what reads them."""

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """As the protocol says."""
        check_request(request, self.capabilities, type(self).__name__)
        frames, reader = self._asked(request)
        with self._endpoint.translated():
            async with aclosing(frames):
                async for frame in frames:
                    for delta in reader.read(frame):
                        yield delta
                    if reader.done:
                        break
        yield reader.finish()

    async def aclose(self) -> None:
        """Close its connections; a client that was given stays open."""
        await self._endpoint.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._model!r}, {self._endpoint!r})"
