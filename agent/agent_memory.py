"""Protocols of the memory and the documents that an agent reads and writes. No implementation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal, Protocol, Unpack

from tellback.agent.errors import ArgumentError
from tellback.memory import Memory, Message, RecallResult, Report
from tellback.memory.internals import SCOPES, Passages, Profile

if TYPE_CHECKING:
    from tellback.memory import HistoryStorage, RecallOptions
    from tellback.vectorstore import Filter, VectorStore

NOT_SENSITIVE_FILTER: Final[Filter] = {"sensitive": {"$ne": True}}
"""Filter of the memories that a remote model may be shown, unless the setting allows more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOptions:
    """Part of a memory that a run sees, and the scopes that it stamps on what it stores.

    - *where*, a filter on metadata, *tags* (any of them), *collections* of documents (None: all), *as_of*,
      *min_confidence* and *neighbours* bound and widen what is recalled, as in ``tellback.memory.RecallOptions``;
      pinned memories are bound by *tags* and *scopes*.
    - *scopes*, such as ``{"project": "atlas"}``: only memories that carry all of them are recalled, and what the run
      stores carries them too.
    - *floor* takes the place of ``AgentSettings.relevance_floor``.
    """

    where: Filter | None = None
    tags: tuple[str, ...] = ()
    scopes: Mapping[str, str] = field(default_factory=dict)
    collections: tuple[str, ...] | None = None
    neighbours: int | Literal["exchange"] = 0
    as_of: datetime | None = None
    min_confidence: float = 0.0
    floor: float | None = None

    def __post_init__(self) -> None:
        for name in ("tags", "collections"):
            values = getattr(self, name)
            if isinstance(values, str) or not all(isinstance(value, str) for value in values or ()):
                raise ArgumentError(name, values, "a tuple of texts is needed")
        pairs = self.scopes.items() if isinstance(self.scopes, Mapping) else [("", None)]
        if not all(isinstance(text, str) and text.strip() for pair in pairs for text in pair):
            raise ArgumentError("scopes", self.scopes, 'a mapping of names to texts is needed, as {"project": "atlas"}')
        for name in ("floor", "min_confidence"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise ArgumentError(name, value, "a number in [0, 1] is needed")

    def recall_options(self) -> RecallOptions:
        """Return the options of a recall that are set."""
        options: RecallOptions = {}
        if self.tags:
            options["tags"] = self.tags
        if self.scopes:
            options["scopes"] = self.scopes
        if self.collections is not None:
            options["collections"] = self.collections
        if self.neighbours:
            options["neighbours"] = self.neighbours
        if self.as_of is not None:
            options["as_of"] = self.as_of
        if self.min_confidence:
            options["min_confidence"] = self.min_confidence
        return options

    def admits(self, memory: Memory) -> bool:
        """Return whether a pinned *memory* has the scopes, and one of the tags."""
        in_scopes = all(memory.scopes.get(name) == value for name, value in self.scopes.items())
        return in_scopes and (not self.tags or not set(self.tags).isdisjoint(memory.tags))

    def stamped(self, message: Message) -> Message:
        """Return *message* with the scopes added; its own scopes win."""
        if not self.scopes:
            return message
        scopes = {**self.scopes, **message.metadata.get(SCOPES, {})}
        return message.model_copy(update={"metadata": {**message.metadata, SCOPES: scopes}})


class AgentMemory(Protocol):
    """Memory that an agent can be grounded on, like ``tellback.memory.LongTermMemory``, whose docstrings hold here.

    A memory of one's own has all of these; it need not inherit.
    """

    @property
    def conversations(self) -> HistoryStorage:
        """History of the conversations."""

    @property
    def store(self) -> VectorStore:
        """Vector store of the memories; its analyzer makes words comparable."""

    async def recall(
        self,
        question: str,
        k: int = 10,
        **options: Unpack[RecallOptions],
    ) -> RecallResult:
        """Return the *k* memories and passages that bear most on *question*, best first.

        A run gives *context*, the user's texts before the question, *namespace* and *where*; the other *options* only
        where its ``MemoryOptions`` set them.
        """

    def redacted(self, text: str) -> str:
        """Return *text* as it would be kept, after the redactions of the write policies."""

    async def similarities(self, question: str, texts: Sequence[str]) -> Sequence[float] | None:
        """Return the cosine of each of *texts* with *question*; None where no embedder on this machine can."""

    async def pinned(self, *, namespace: str = "") -> Sequence[Memory]:
        """Return the pinned memories, the most important first, then the newest."""

    async def profile(
        self, *, namespace: str = "", limit: int = 5, attributes: bool = False, where: Filter | None = None
    ) -> Profile:
        """Return the profile of the user; with *attributes* only their own name, home and work."""

    async def get(self, ids: Sequence[str], *, namespace: str = "") -> Sequence[Memory | None]:
        """Return memories in the order of *ids*; None for an unknown id."""

    async def remember_turn(
        self, session: str, messages: Sequence[Message], *, namespace: str = "", used: Sequence[str] = ()
    ) -> Sequence[Report]:
        """Append *messages* to the history of *session* and remember them, whole or not at all."""


def check_members(argument: str, value: object, protocol: type) -> None:
    """Raise ``ArgumentError`` where *value* lacks a public member of *protocol*, naming all that are missing."""
    names = [name for name in vars(protocol) if not name.startswith("_")]
    if missing := [name for name in names if not hasattr(value, name)]:
        raise ArgumentError(argument, value, f"this is no {protocol.__name__}: it has no {', '.join(missing)}")


class PassageRetriever(Protocol):
    """Documents that passages can be retrieved from, such as ``tellback.memory.KnowledgeBase``."""

    async def retrieve(self, question: str, k: int = 5) -> Passages:
        """Return the passages that are most about *question*, best first."""
