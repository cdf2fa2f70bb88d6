"""Errors of the memory layer: one tree, each error with its data and what to do.

MemoryLayerError                (``MemoryError`` is a builtin)
├── ArgumentError               a value given by the caller (also a ValueError): argument, value, expected
│   └── FilterError             a filter that the language does not know
├── DuplicateKey                the same key with another text; nothing was overwritten: key, id
├── NoSuchMemory                no memory of that id: id
├── NotTrusted                  an actor that may not change what is trusted more: id, operation, actor, trust
├── CannotUndo                  an operation that cannot be taken back: operation, reason, in_the_way
├── RejectedText                a correction that a write policy does not let through: reason
├── EmbedderError               an embedder failed or answered nonsense
│   └── EmbedderMismatch        the file was filled with vectors of another embedder: recorded, given
├── HttpError                   an HTTP exchange failed: url (without secrets), status
│   ├── HttpConnectError        nothing answered
│   ├── HttpTimeout             it took too long
│   └── HttpStatusError         the server refused: status, retry_after
├── LoadError                   a document could not be read: source, reason
├── UnreadableExport            a file that cannot be imported; nothing of it was taken: path, line, reason
├── TokenizerUnavailable        exact token counts cannot be had here
└── StoreError                  the store failed or refused: one class for each of
``tellback.vectorstore.VectorStoreError``

An error with the same cause as one of the store's is also that one, and may be caught as either:

VectorStoreError
├── ArgumentError ──────────── memory.ArgumentError ───── agent.ArgumentError
│   └── FilterError ────────── memory.FilterError
└── BusyError, StoreClosed, …  memory.StoreError

What the store raises inside a call of the memory is translated at its public face (``translating``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import wraps
from inspect import iscoroutinefunction
from types import FunctionType
from typing import Any, TypeVar

from tellback import vectorstore
from tellback.vectorstore.internals import with_hints

_Face = TypeVar("_Face", bound=type)


class MemoryLayerError(Exception):
    """Base of everything this package raises on purpose."""


class ArgumentError(MemoryLayerError, vectorstore.ArgumentError):
    """A caller's value is unusable; nothing was written."""

    def __init__(self, argument: str, value: object, expected: str) -> None:
        self.argument = argument
        self.value = value
        self.expected = expected
        text = str(value) if isinstance(value, datetime) else repr(value)
        Exception.__init__(self, f"{argument}: {expected}, got {text if len(text) <= 80 else text[:79] + '…'}")


class FilterError(ArgumentError, vectorstore.FilterError):
    """A filter uses an operator or a shape that the language does not have."""


class StoreError(MemoryLayerError, vectorstore.VectorStoreError):
    """The store failed or refused; each is also the class that the store raised, with its data."""


class DuplicateKey(MemoryLayerError):
    """A caller's key was used before, with another text."""

    def __init__(self, key: str, id: str) -> None:
        self.key = key
        self.id = id
        super().__init__(
            f"key {key!r} already names memory {id} with another text; correct that one or use another key"
        )


class NoSuchMemory(MemoryLayerError):
    """No memory has that id in this namespace."""

    def __init__(self, id: str) -> None:
        self.id = id
        super().__init__(f"no memory {id!r} here")


class NotTrusted(MemoryLayerError):
    """An actor wanted to change what is trusted more than itself; nothing was changed.

    *what* is the kind of thing that has the *id* ("memory", "session").
    """

    def __init__(self, id: str, operation: str, actor: str, trust: str, what: str = "memory") -> None:
        self.id = id
        self.operation = operation
        self.actor = actor
        self.trust = trust
        super().__init__(
            f"{what} {id} is the {trust}'s: {operation} by {actor} needs approval "
            f"(approved_by={str(trust)!r} or whoever is trusted more)"
        )


class CannotUndo(MemoryLayerError):
    """An operation cannot be taken back, and nothing was changed; *in_the_way* names a later operation that is."""

    def __init__(self, operation: str, reason: str, in_the_way: str | None = None) -> None:
        self.operation = operation
        self.reason = reason
        self.in_the_way = in_the_way
        super().__init__(f"operation {operation} cannot be undone: {reason}")


class RejectedText(MemoryLayerError):
    """A write policy did not let a correction through; the memory is as it was."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"not stored: {reason}")


class EmbedderError(MemoryLayerError):
    """An embedder failed, or answered with a wrong count, dimension, NaN or zero vector."""


class EmbedderMismatch(EmbedderError):
    """The file was filled with vectors of another embedder."""

    def __init__(self, recorded: str, given: str) -> None:
        self.recorded = recorded
        self.given = given
        super().__init__(
            f"this memory holds vectors of {recorded}, the embedder is {given}; "
            "use the recorded one, or re-embed the memory"
        )


class EmbedderChanged(EmbedderMismatch):
    """The embedder has the right name, and gives other vectors than when the file was filled."""

    def __init__(self, fingerprint: str, nearness: float) -> None:
        super().__init__(fingerprint, fingerprint)
        self.nearness = nearness
        text = (
            f"the embedder {fingerprint} gives other vectors than when this memory was filled (nearness "
            f"{nearness:.2f}): its model was changed under the same name; bring the old one back, or re-embed "
            "the memory"
        )
        self.args = (text,)


class HttpError(MemoryLayerError):
    """An HTTP exchange failed; *url* carries no credentials. If it is *retriable*, another attempt may succeed."""

    retriable = False

    def __init__(self, url: str, problem: str, *, status: int | None = None, retry_after: float | None = None) -> None:
        self.url = url
        self.status = status
        self.retry_after = retry_after
        super().__init__(f"{url}: {problem}")


class HttpConnectError(HttpError):
    """Nothing answered at the address, or the connection was lost."""

    retriable = True


class HttpTimeout(HttpError):
    """The server took too long, or fell silent; to wait as long once more would seldom help."""


class HttpStatusError(HttpError):
    """The server answered with an error status; *retry_after* in seconds when it named one."""

    body: bytes = b""
    """The answer as it came; it may repeat what was sent."""


class LoadError(MemoryLayerError):
    """A document could not be read."""

    def __init__(self, source: str, reason: str) -> None:
        self.source = source
        self.reason = reason
        super().__init__(f"{source}: {reason}")


class UnreadableExport(MemoryLayerError):
    """A file is no export, or not whole, or of a newer version; nothing of it was taken. *line* counts from 1."""

    def __init__(self, path: str, line: int, reason: str) -> None:
        self.path = path
        self.line = line
        self.reason = reason
        super().__init__(f"{path}, line {line}: {reason}; nothing was imported")


class TokenizerUnavailable(MemoryLayerError):
    """The tokenizer's tables are not on this machine; nothing is downloaded by itself."""


@contextmanager
def store_errors() -> Iterator[None]:
    """Raise what the store raises inside as an error of the memory, caused by the store's own."""
    try:
        yield
    except vectorstore.VectorStoreError as error:
        if isinstance(error, MemoryLayerError):
            raise
        kind = _own(type(error))
        own = kind.__new__(kind, *error.args)
        vars(own).update(vars(error))
        raise own from error


def translating(face: _Face) -> _Face:
    """Let every public method of the class *face* run under ``store_errors``, with hints for wrong calls."""
    for name, member in list(vars(face).items()):
        if isinstance(member, FunctionType) and not name.startswith("_"):
            setattr(face, name, _translated(member))
    return with_hints(face)


def _translated(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    async def waited(*arguments: Any, **options: Any) -> Any:
        with store_errors():
            return await method(*arguments, **options)

    @wraps(method)
    def called(*arguments: Any, **options: Any) -> Any:
        with store_errors():
            return method(*arguments, **options)

    return waited if iscoroutinefunction(method) else called


def _own(kind: type[vectorstore.VectorStoreError]) -> type[vectorstore.VectorStoreError]:
    """Return the memory's class for the store's *kind*: a subclass of both."""
    known = _OWN.get(kind)
    if known is not None:
        return known
    base = ArgumentError if issubclass(kind, vectorstore.ArgumentError) else StoreError
    own = type(kind.__name__, (base, kind), {"__module__": __name__, "__doc__": kind.__doc__})
    return _OWN.setdefault(kind, own)


_OWN: dict[type[vectorstore.VectorStoreError], type[vectorstore.VectorStoreError]] = {
    vectorstore.VectorStoreError: StoreError,
    vectorstore.ArgumentError: ArgumentError,
    vectorstore.FilterError: FilterError,
}
"""The memory's class for each of the store's; the others are made when they are first raised."""
