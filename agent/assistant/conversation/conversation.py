"""Conversation of one session: a line is understood, a prompt answered as events, and what the turn kept is told.

Nothing here prints or asks: the terminal, the page and the API show what comes back, and ask a person what is proposed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from tellback.agent.assistant.conversation.plain_requests import (
    asks_for_profile,
    asks_for_reminder,
    correction_request,
    forget_request,
    memories_about,
    propose_correction,
)
from tellback.agent.assistant.conversation.secret_mask import SecretMask

if TYPE_CHECKING:
    from tellback.agent.assistant.conversation.background_worker import Announcement, BackgroundWorker
    from tellback.agent.assistant.wiring import Assistant, OpenedMemory
    from tellback.agent.events import Event
    from tellback.agent.results import RunResult
    from tellback.memory import Memory, Report
    from tellback.memory.internals import Block

_ANSWERS: Final = ("y", "yes", "n", "no", "none")
_UNDO_WORDS: Final = ("undo", "undo that", "undo it", "take that back")
_FOCUS: Final = 5
_CLIENT: Final = "chat"
"""Client in the log of what was given."""


@dataclass(frozen=True, slots=True)
class PlainRequest:
    """Request in plain words: nothing is done about it before a person agreed.

    - "profile": what is known about the user; "undo": of what was done last; "answer": a yes or no to no question.
    - "forget": of *memories*, found for *what*, which is "" where the last mentioned is meant.
    - "correct": *text* in the place of what the first of *memories* says.
    """

    kind: Literal["profile", "undo", "answer", "forget", "correct"]
    what: str = ""
    memories: Sequence[Memory] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class Kept:
    """Result of keeping the user's words of a turn: the memory *id*, or *known*, the one that said so before.

    *secrets* are the kinds of what was left out. *near* is a memory that nearly says the same, *replaced* those that
    hold no longer, *may_replace* perhaps another; *facts* counts what was noted of it. *reminds*: the user asked to be
    reminded, which nothing does.
    """

    id: str | None = None
    known: str | None = None
    secrets: tuple[str, ...] = ()
    near: str | None = None
    replaced: tuple[str, ...] = ()
    may_replace: str | None = None
    facts: int = 0
    reminds: bool = False

    @classmethod
    def of(cls, prompt: str, report: Report | None) -> Kept:
        """Return what the *report* says of the user's words in *prompt*."""
        from tellback.memory.internals import Outcome, analyze_text

        if report is None:
            return cls()
        secrets = SecretMask(prompt).kinds
        if secrets and report.outcome in (Outcome.REDACTED, Outcome.REJECTED):
            return cls(report.id if report.stored else None, secrets=secrets)
        if report.outcome in (Outcome.DUPLICATE, Outcome.NEAR_DUPLICATE):
            return cls(known=report.of or report.id)
        if not report.stored or not analyze_text(prompt).utterance.kind.is_evidence:
            return cls()
        return cls(
            report.id,
            near=report.of,
            replaced=report.replaced,
            may_replace=report.may_replace,
            facts=len(report.made),
            reminds=asks_for_reminder(prompt),
        )


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """End of a turn: its result, the error that ended it, its warnings, and what it kept."""

    prompt: str
    result: RunResult
    error: Exception | None
    warnings: Sequence[str]
    kept: Kept


TurnEvent: TypeAlias = "Event | TurnEnded"


@dataclass(slots=True)
class Conversation:
    """Conversation of *session* with *assistant*; *announce* gets what is done beside it, in another thread.

    ``focus`` are the ids of the memories mentioned last, ``withheld`` is the last prompt that was not kept whole, with
    its report.
    """

    assistant: Assistant
    session: str
    announce: Callable[[Announcement], None]
    focus: list[str] = field(default_factory=list)
    last: TurnEnded | None = None
    withheld: tuple[str, Report] | None = None
    worker: BackgroundWorker | None = None

    @property
    def opened(self) -> OpenedMemory:
        """Open memory of the assistant."""
        return self.assistant.opened

    def begin(self, session: str) -> None:
        """Store further turns in *session*."""
        self.session, self.focus, self.last = session, [], None

    async def understand(self, line: str) -> PlainRequest | None:
        """Return the request in plain words that *line* is; None for a prompt. A model is told all but the first."""
        plain = line.strip().lower().rstrip(".!")
        if asks_for_profile(line):
            return PlainRequest("profile")
        if self.opened.settings.model is not None:
            return None
        if plain in _UNDO_WORDS:
            return PlainRequest("undo")
        if plain in _ANSWERS:
            return PlainRequest("answer")
        if (what := forget_request(line)) is not None:
            return await self.to_forget(what)
        statement = correction_request(line)
        return None if statement is None else await self.to_correct(statement)

    async def to_forget(self, what: str) -> PlainRequest:
        """Return the request to forget *what*, with the memories about it; "": the one mentioned last."""
        desk = self.opened.desk
        found = await memories_about(desk, what, self.opened.analyzer) if what else await desk.get(self.focus[:1])
        return PlainRequest("forget", what, [memory for memory in found if memory is not None])

    async def to_correct(self, statement: str) -> PlainRequest | None:
        """Return the request to put right what *statement* corrects; None where no memory is about it."""
        proposal = await propose_correction(self.opened.desk, statement, self.focus, self.opened.analyzer)
        if proposal is None:
            return None
        memory, text = proposal
        return PlainRequest("correct", statement, [memory], text)

    async def answer(self, prompt: str, blocks: Sequence[Block] = ()) -> AsyncGenerator[TurnEvent, None]:
        """Answer *prompt* with the attached *blocks*; yield the events of the run, and ``TurnEnded`` last."""
        from tellback.agent.events import MemoryDegraded, RunEnded, WarningIssued
        from tellback.memory import TextBlock

        if self.worker is not None:
            self.worker.pause()
        warnings: list[str] = []
        words = [TextBlock(text=prompt), *blocks] if blocks else prompt
        async with aclosing(self.assistant.agent.stream(words, session=self.session)) as events:
            async for event in events:
                if isinstance(event, WarningIssued):
                    warnings.append(event.text)
                elif isinstance(event, MemoryDegraded) and event.access.error is None:  # an error is a warning, too
                    warnings.append(event.access.problem)
                elif isinstance(event, RunEnded):
                    stored = event.result.stored
                    kept = Kept.of(prompt, stored[0] if stored else None)
                    ended = TurnEnded(prompt, event.result, event.error, warnings, kept)
                yield event
        if ended.error is None:
            self._take(ended)
            await self._log_given(ended)
        yield ended

    async def _log_given(self, turn: TurnEnded) -> None:
        """Log which memories the prompt was given: those that a model was shown; without one, those quoted."""
        shown = turn.result.citations if self.opened.settings.model is None else turn.result.memories
        scores = {item.id: item.score for item in shown if item.lane == "conversation"}
        await self.opened.desk.log_given(turn.prompt, scores, client=_CLIENT, session=self.session)

    def _take(self, turn: TurnEnded) -> None:
        from tellback.memory.internals import analyze_text

        self.last, result = turn, turn.result
        if turn.kept.secrets:
            self.withheld = (turn.prompt, result.stored[0])
        quoted = [citation.id for citation in result.citations if citation.lane == "conversation"]
        is_evidence = analyze_text(turn.prompt).utterance.kind.is_evidence
        said = [report.id if report.stored else report.of for report in result.stored[:1] if is_evidence]
        self.focus = list(dict.fromkeys(filter(None, (*(quoted or said), *said, *self.focus))))[:_FOCUS]
        kept = [report.id for report in result.stored[:1] if report.stored and is_evidence]
        self._work_beside(kept[0] if kept else None)

    def _work_beside(self, turn: str | None) -> None:
        """Ask the model for the facts in the memory *turn*, and for lines, while the conversation goes on."""
        from tellback.agent.assistant.wiring import writes_lines

        settings = self.opened.settings
        if not settings.extract_facts or settings.model is None:
            turn = None
        if turn is None and not writes_lines(settings):
            return
        if self.worker is None:
            from tellback.agent.assistant.conversation.background_worker import BackgroundWorker

            self.worker = BackgroundWorker(self.announce)
        self.worker.submit(self.opened, turn)

    async def correct(self, request: PlainRequest, *, text: str = "", sensitive: bool = False) -> str:
        """Carry out the correction *request*, with another *text* where one is given; return the memory's id."""
        from tellback.agent.desk.consent import Person

        (memory,) = request.memories
        words = text or request.text
        await self.opened.desk.correct(Person(), memory.id, words, sensitive=sensitive or memory.sensitive)
        self.focus = list(dict.fromkeys((memory.id, *self.focus)))
        return memory.id

    async def keep_withheld(self) -> tuple[str, tuple[str, ...]] | None:
        """Keep the last prompt with a secret whole, marked as sensitive; return its id, and the kinds of its secrets.

        None: nothing was left out.
        """
        from tellback.agent.desk.consent import Person
        from tellback.memory import Memory

        if self.withheld is None:
            return None
        (prompt, report), self.withheld = self.withheld, None
        desk, kinds = self.opened.desk, SecretMask(prompt).kinds
        if report.stored:
            await desk.correct(Person(), report.id, prompt, sensitive=True)
        else:
            report = await desk.remember(Person(), Memory(prompt, sensitive=True, session=self.session))
        return report.id, kinds

    async def drop_forgotten(self) -> None:
        """Take out of the focus what is there no more."""
        known = await self.opened.desk.get(self.focus) if self.focus else []
        self.focus = [memory.id for memory in known if memory is not None]
