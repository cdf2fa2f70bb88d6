"""``tellback eval``: recall quality of the own memory, also with another embedder or other settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from agent.assistant.cli.command_context import opened_memory
from agent.assistant.cli.errors import with_error_report
from agent.assistant.cli.json_output import evaluation_json
from agent.assistant.cli.output import format_count, print_json, print_note, print_table, print_text, progress_bar

if TYPE_CHECKING:
    from memory.internals import ConfidenceInterval, Evaluation, EvaluationLine

_VERDICT_WORDS = {
    1: ("better", "would find more"),
    -1: ("worse", "would find less"),
    0: ("", "makes no sure difference"),
}
_EVALUATION_HEADINGS = ("way", "questions", "asked", "first", "found", "MRR", "MRR less as it is", "")


@with_error_report
def evaluate_memory(
    context: typer.Context,
    embedder: Annotated[
        str | None,
        typer.Option("--with", metavar="EMBEDDER", help="Try it too: local, hashing, openai:MODEL or ollama:MODEL."),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Try it too, as in conversation.session=0.2; may be repeated."),
    ] = None,
    questions: Annotated[int, typer.Option(metavar="COUNT", help="How many questions at most.", min=5)] = 200,
    k: Annotated[int, typer.Option("-k", metavar="COUNT", help="Within how many hits it must be found.", min=1)] = 10,
    seed: Annotated[int, typer.Option(metavar="NUMBER", help="Which questions are made.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Ask the memory questions that are made from it.

    By text alone, as it is, and with what else is named; nothing in it is changed.
    """
    from agent.assistant.wiring import changed_recall_settings, make_named_embedder
    from memory import evaluate, run_sync

    with opened_memory(context) as opened, progress_bar("eval", quiet=json) as shown:
        changed = changed_recall_settings(opened.memory.recall_settings, setting) if setting else None
        other, client = make_named_embedder(opened.settings, embedder) if embedder is not None else (None, None)

        async def measure() -> Evaluation:
            try:
                return await evaluate(
                    opened.memory,
                    namespace=opened.namespace,
                    embedder=other,
                    settings=changed,
                    questions=questions,
                    k=k,
                    seed=seed,
                    on_progress=lambda what, done, total: shown(done, total, what),
                )
            finally:
                if client is not None:
                    await client.aclose()

        evaluation = run_sync(measure())
    if json:
        print_json(evaluation_json(evaluation))
    else:
        _print_evaluation(evaluation)


def _print_evaluation(evaluation: Evaluation) -> None:
    print_table(_EVALUATION_HEADINGS, [_evaluation_row(line) for line in evaluation.lines])
    print_note()
    for way, name in evaluation.embedders.items():
        print_note(f"{way}: {name or 'no vectors'}")
    questions = format_count(evaluation.questions, "question")
    memories = format_count(evaluation.memories, "memory", "memories")
    print_note(
        f"{questions} made from {memories} by rule, seed {evaluation.seed}; found: among the first {evaluation.k}."
    )
    print_text(_verdict_sentence(evaluation.lines))


def _evaluation_row(line: EvaluationLine) -> Sequence[str]:
    shares = (f"{line.first:.3f}", f"{line.among:.3f}", f"{line.mrr:.3f}")
    gain = line.gain_mrr
    less = "" if gain is None else str(gain)
    return (
        line.way,
        str(line.questions),
        line.kind,
        *shares,
        less,
        "" if gain is None else _VERDICT_WORDS[_significant_direction(gain)][0],
    )


def _verdict_sentence(lines: Sequence[EvaluationLine]) -> str:
    """Return a sentence that compares each other way with the memory as it is, over all questions."""
    gains = [(line.way, line.gain_mrr) for line in lines if line.kind == "all" and line.gain_mrr is not None]
    text = "; ".join(f"{way} {_VERDICT_WORDS[_significant_direction(gain)][1]}" for way, gain in gains)
    return f"{text[:1].upper()}{text[1:]}."


def _significant_direction(gain: ConfidenceInterval) -> int:
    """Return 1 if the interval lies above zero, -1 if below, 0 if it contains zero."""
    return 1 if gain.low > 0 else -1 if gain.high < 0 else 0
