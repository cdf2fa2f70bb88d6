"""The contract of a memory system, and the values that cross it. Only the standard library is imported.

A system is a class that is constructed with ``Settings``. It runs in a process of its own, in the environment that
its packages need, and is asked one thing at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol


class Unavailable(Exception):
    """The system cannot be used here as its manual says; the message says why."""


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to remember: a turn, a note, a document.

    *at* is ISO 8601; *caption* says what a picture with it shows; *about* is a recorded line, mostly empty.
    """

    id: str
    text: str
    speaker: str = ""
    role: str = "user"
    session: str = ""
    at: str = ""
    about: str = ""
    caption: str = ""

    @property
    def line(self) -> str:
        """The item in a line: date, speaker, text, picture. Systems without fields for these are given it."""
        date = f"({datetime.fromisoformat(self.at):%d %B %Y}) " if self.at else ""
        return f"{date}{self.speaker}{': ' if self.speaker else ''}{self.text}{self._picture}"

    @property
    def _picture(self) -> str:
        return f" [image: {self.caption}]" if self.caption else ""


@dataclass(frozen=True, slots=True)
class Question:
    """A question as a system sees it, and the moment *at* which it is asked."""

    id: str
    text: str
    at: str = ""


@dataclass(frozen=True, slots=True)
class Hit:
    """One thing that was found: the *id* of an item, or the *text* of a fact that the system wrote itself."""

    id: str = ""
    score: float = 0.0
    text: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """Hits, best first. *abstains*: the system itself says that nothing there answers the question."""

    hits: Sequence[Hit] = ()
    confidence: float | None = None
    abstains: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """Circumstances of a system: a *folder* that is its own, the *seed*, and options of its entry.

    *embedder* is the address of an OpenAI-compatible server (with ``/v1``) that all systems of a run share, empty
    where the system takes its own; *model* and *dimensions* are to be used there. *gold* is empty but for the oracle.
    """

    folder: Path
    seed: int = 0
    embedder: str = ""
    model: str = ""
    dimensions: int = 0
    options: Mapping[str, str] = field(default_factory=dict)
    gold: Mapping[str, Sequence[str]] = field(default_factory=dict)


class MemorySystem(Protocol):
    """A memory that can be measured. Errors may be raised anywhere: they are reported with the system's name."""

    def __init__(self, settings: Settings) -> None:
        """Open the memory; raise ``Unavailable`` where that cannot be done."""

    def reset(self) -> None:
        """Forget everything."""

    def ingest(self, items: Sequence[Item]) -> None:
        """Remember *items*, which come in the order of their times."""

    def ready(self) -> None:
        """Return once everything that was ingested can be found."""

    def search(self, question: Question, k: int, tokens: int) -> Found:
        """Return the *k* best. The harness cuts what is beyond *k*, or beyond *tokens* where answers are read."""

    def usage(self) -> Mapping[str, float]:
        """Return what was used so far: ``calls`` of a model, ``input`` and ``output`` tokens; empty for none."""

    def close(self) -> None:
        """Release files, threads and processes."""


class Adapter:
    """Base of a memory that has nothing to wait for, to count or to release. No adapter needs it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def reset(self) -> None: ...

    def ready(self) -> None: ...

    def usage(self) -> Mapping[str, float]:
        return {}

    def close(self) -> None: ...
