"""Prompts of the reader and the judge, with their versions: a change of a word is a new version.

The judge asks what LongMemEval's does, kind by kind, in our words; ``official`` figures need its own script.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.memory.data.dataset import Asked

READER_VERSION, JUDGE_VERSION = "tellback-reader-1", "tellback-judge-1"
_EXTRA = {
    "temporal-reasoning": "A number of days, weeks or months that is off by one is correct, too.",
    "knowledge-update": "It may name what held before, if what holds now is given as the answer.",
    "single-session-preference": "The expected answer is a rubric; using rightly what the user likes is enough.",
}


def reader_prompt(asked: Asked, context: Sequence[str]) -> str:
    """Return the prompt of the reader over the lines of *context*."""
    told = "\n".join(f"[{number}] {line}" for number, line in enumerate(context, 1)) or "(nothing was found)"
    when = f"It is {asked.question.at}.\n" if asked.question.at else ""
    return (
        "Answer the question from these remembered lines alone, in as few words as possible. "
        "If they do not hold the answer, say: no information available.\n\n"
        f"{told}\n\n{when}Question: {asked.question.text}\nAnswer:"
    )


def judge_prompt(asked: Asked, answer: str) -> str:
    """Return the prompt of the judge on *answer*."""
    if not asked.answerable:
        return (
            "Nothing that was told answers this question. Does the response say so, rather than answer it? "
            f"Reply yes or no.\n\nQuestion: {asked.question.text}\nResponse: {answer}"
        )
    return (
        "Does the response give the expected answer, in whatever words? A part of it alone is not enough. "
        f"{_EXTRA.get(asked.kind, '')} Reply yes or no.\n\n"
        f"Question: {asked.question.text}\nExpected: {asked.answer}\nResponse: {answer}"
    )
