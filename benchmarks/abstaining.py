"""How often a recall says that nothing here may answer, where that is right and where it is wrong.

Answerable questions that are refused are the cost; caught are questions of another conversation, of an article that is
not there, and what was said of the other person. Questions without an answer in a text that is there cannot be told
without reading, and are not asked.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.datasets import Conversation, Library, Question, locomo, squad
from benchmarks.forms import told_to_an_assistant
from benchmarks.recall import ADVERSARIAL, Row, Settings, WholeText, opened
from memory import KnowledgeBase, LongTermMemory

_EACH = 4
"""Of the questions of another conversation, every fourth is asked in each: as many as there are answerable ones."""


@dataclass(slots=True)
class Verdicts:
    """What was said to the questions of one kind: the reason to abstain (None: none) and the confidence of each."""

    reasons: list[str | None] = field(default_factory=list)
    confidences: list[float] = field(default_factory=list)

    async def ask(self, memory: LongTermMemory, text: str, lane: str) -> None:
        """Ask *text* and keep what was said."""
        found = await memory.recall(text, lanes=(lane,))
        self.reasons.append(found.abstain)
        self.confidences.append(found.confidence)

    def share(self, *reasons: str) -> float:
        """Return the share of questions that were refused for one of *reasons*."""
        return sum(reason in reasons for reason in self.reasons) / max(len(self.reasons), 1)


async def abstentions(folder: Path, settings: Settings, say: Callable[[str], None]) -> list[Row]:
    """Return a row a kind of question: refused as "nothing", as "other", for either reason, and the mean confidence.

    A kind that cannot be answered has an "AUROC" too: how often it gets less confidence than an answerable one.
    """
    rows: list[Row] = []
    if "locomo" in settings.sets:
        rows += _rows(await _conversations(locomo(folder), settings, say), answerable="answerable")
    if "squad" in settings.sets:
        rows += _rows(await _articles(squad(folder), settings, say), answerable="its article there")
    return rows


async def _conversations(
    conversations: Sequence[Conversation], settings: Settings, say: Callable[[str], None]
) -> Mapping[str, Verdicts]:
    kinds = (
        "answerable",
        "said of the other person",
        "of another conversation",
        "- names replaced",
        "answerable, asked of an assistant",
        "- said of the other, asked of an assistant",
    )
    found = {kind: Verdicts() for kind in kinds}
    for conversation in conversations:
        say(f"doubt, LoCoMo {conversation.name}")
        with opened(settings) as memory:
            await memory.remember_many(conversation.turns)
            for question in conversation.questions[: settings.limit]:
                kind = kinds[1] if question.group == ADVERSARIAL else kinds[0]
                await found[kind].ask(memory, question.text, "conversation")
            for other in conversations:
                if other is conversation:
                    continue
                for question in _answerable(other)[: settings.limit : _EACH]:
                    await found[kinds[2]].ask(memory, question.text, "conversation")
                    await found[kinds[3]].ask(memory, renamed(question.text, other, conversation), "conversation")
        for form in told_to_an_assistant(conversation):
            with opened(settings) as memory:
                await memory.remember_many(form.turns)
                for question in form.questions[: settings.limit]:
                    kind = kinds[5] if question.group == ADVERSARIAL else kinds[4]
                    await found[kind].ask(memory, question.text, "conversation")
    return {f"LoCoMo, {kind}" if not kind.startswith("-") else kind: verdicts for kind, verdicts in found.items()}


async def _articles(library: Library, settings: Settings, say: Callable[[str], None]) -> Mapping[str, Verdicts]:
    """Ask all questions twice: with one half of the articles there, then with the other."""
    articles = sorted({_article(id) for id in library.documents})
    there, absent = Verdicts(), Verdicts()
    for half in (articles[::2], articles[1::2]):
        say(f"doubt, SQuAD: {', '.join(half)}")
        with opened(settings) as memory, TemporaryDirectory() as folder:
            for id, text in library.documents.items():
                if _article(id) in half:
                    (Path(folder) / f"{id}.txt").write_text(text, "utf-8")
            await KnowledgeBase(memory, chunker=WholeText()).ingest([folder])
            for question in library.questions[: settings.limit]:
                verdicts = there if _article(next(iter(question.evidence))) in half else absent
                await verdicts.ask(memory, question.text, "documents")
    return {"SQuAD, its article there": there, "SQuAD, its article absent": absent}


def renamed(text: str, of: Conversation, to: Conversation) -> str:
    """Return a question about one conversation with the names of its speakers replaced by those of another."""
    for old, new in zip(_speakers(of), _speakers(to), strict=False):
        text = re.sub(rf"\b{re.escape(old)}\b", new, text)
    return text


def _rows(found: Mapping[str, Verdicts], *, answerable: str) -> list[Row]:
    answered = next(verdicts for name, verdicts in found.items() if name.endswith(answerable))
    rows = []
    for name, verdicts in found.items():
        figures = {
            "nothing": verdicts.share("nothing"),
            "other": verdicts.share("other"),
            "refused": verdicts.share("nothing", "other"),
            "confidence": sum(verdicts.confidences) / max(len(verdicts.confidences), 1),
        }
        if verdicts is not answered:
            figures["AUROC"] = auroc(answered.confidences, verdicts.confidences)
        rows.append(Row(name, len(verdicts.reasons), figures))
    return rows


def auroc(higher: Sequence[float], lower: Sequence[float]) -> float:
    """Return how often one of *higher* is above one of *lower*, ties counted half."""
    if not higher or not lower:
        return 0.0
    ranked = sorted(lower)
    wins = sum(bisect_left(ranked, one) + bisect_right(ranked, one) for one in higher)
    return wins / (2 * len(higher) * len(lower))


def _answerable(conversation: Conversation) -> list[Question]:
    return [one for one in conversation.questions if one.group != ADVERSARIAL]


def _speakers(conversation: Conversation) -> list[str]:
    return sorted({turn.speaker for turn in conversation.turns if turn.speaker})


def _article(id: str) -> str:
    return id.rpartition("-")[0]
