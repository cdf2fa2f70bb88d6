"""``tellback recall``, ``why-not`` and ``eval``: hits for a question with source, time and score, why one is missing,
and the recall quality of the own memory, also with another embedder or other settings."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tellback.agent.assistant.cli.command_context import compute_in_one_thread, global_options, opened_memory, run
from tellback.agent.assistant.cli.options import (
    AsOfOption,
    CollectionOption,
    FullOption,
    JsonOption,
    KnownAtOption,
    ModifiedSinceOption,
    ModifiedUntilOption,
    QuestionArgument,
    ScopeOption,
    SourceOption,
    TagOption,
    TypeOption,
    chosen_documents,
    parse_scopes,
)
from tellback.agent.assistant.cli.output import (
    format_count,
    one_line,
    print_json,
    print_note,
    print_table,
    print_text,
    progress_bar,
    score_line,
)
from tellback.agent.assistant.cli.prompts import read_text_argument
from tellback.agent.assistant.cli.recall_output import print_recall
from tellback.agent.assistant.cli.short_ids import resolve_id
from tellback.agent.assistant.cli.times import parse_time

if TYPE_CHECKING:
    from tellback.agent.assistant.wiring import OpenedMemory
    from tellback.memory import RecallOptions
    from tellback.memory.internals import ConfidenceInterval, Evaluation

_EVALUATION_HEADINGS = ("way", "questions", "asked", "first", "found", "MRR", "MRR less as it is", "")


def recall(
    context: typer.Context,
    question: QuestionArgument,
    k: Annotated[int, typer.Option("-k", metavar="COUNT", help="How many hits at most.", min=1)] = 5,
    tag: TagOption = None,
    scope: ScopeOption = None,
    source: SourceOption = None,
    type: TypeOption = None,
    modified_since: ModifiedSinceOption = None,
    modified_until: ModifiedUntilOption = None,
    collection: CollectionOption = None,
    as_of: AsOfOption = None,
    known_at: KnownAtOption = None,
    min_confidence: Annotated[
        float, typer.Option(metavar="NUMBER", help="Show nothing that is less sure, from 0 to 1.", min=0, max=1)
    ] = 0.0,
    around: Annotated[
        str,
        typer.Option(
            metavar="COUNT", help="So many turns or passages before and after each hit, or its whole 'exchange'."
        ),
    ] = "0",
    every: Annotated[
        bool, typer.Option("--all", help="Find questions, commands and small talk of the chat, too.")
    ] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show what each score is made of.")] = False,
    full: FullOption = False,
    json: JsonOption = False,
) -> None:
    """Show what is known about QUESTION, best first."""
    compute_in_one_thread()
    words = read_text_argument(question, name="QUESTION", what="a question")
    if around != "exchange" and not (around.isascii() and around.isdigit()):
        raise typer.BadParameter("a number or 'exchange' is needed", param_hint="'--around'")
    from tellback.memory.internals import DOCUMENTS

    turns: int | Literal["exchange"] = "exchange" if around == "exchange" else int(around)

    def narrow(opened: OpenedMemory) -> RecallOptions:
        where = chosen_documents(opened, source, type, modified_since, modified_until, collection=collection)
        documents: RecallOptions = {} if collection is None else {"collections": collection, "partitions": DOCUMENTS}
        return {"where": where, **documents}

    print_recall(
        global_options(context),
        words,
        k,
        narrow=narrow if any((source, type, modified_since, modified_until, collection)) else None,
        explain=explain,
        full=full,
        json=json,
        tags=tuple(tag or ()),
        scopes=parse_scopes(scope or (), name="--scope"),
        as_of=parse_time(as_of, name="--as-of"),
        known_at=parse_time(known_at, name="--known-at"),
        min_confidence=min_confidence,
        all_utterances=every,
        neighbours=turns,
    )


def why_not(
    context: typer.Context,
    question: Annotated[
        list[str], typer.Argument(metavar="QUESTION", help="What was asked; '-' reads it from standard input.")
    ],
    id: Annotated[str, typer.Argument(metavar="ID", help="The memory or passage that was expected.")],
    k: Annotated[int, typer.Option("-k", metavar="COUNT", help="How many hits were asked for.", min=1)] = 5,
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="As it was given to recall.")] = None,
    json: JsonOption = False,
) -> None:
    """Say why QUESTION does not find ID.

    The first stage that stopped the memory is named, or its place in the ranking.
    """
    compute_in_one_thread()
    words = read_text_argument(question, name="QUESTION", what="a question")
    with opened_memory(context) as opened:
        id = resolve_id(opened, id)
        answer = run(opened.memory.why_not(words, id, k, namespace=opened.namespace, tags=tuple(tag or ())))
    if json:
        print_json(answer)
        return
    print_text(f"{answer.stage}: {one_line(answer.reason)}")
    if answer.score is None or answer.needed is None:
        return
    print_text(f"score {score_line(answer.score, answer.parts)}")
    print_text(f"the last hit has {answer.needed:.2f}")
    ranks = (("by words", answer.by_words), ("by vector", answer.by_vector))
    if texts := [f"number {rank} {name}" for name, rank in ranks if rank is not None]:
        print_text(", ".join(texts))


def evaluate_memory(
    context: typer.Context,
    embedder: Annotated[
        str | None,
        typer.Option("--with", metavar="EMBEDDER", help="Try it too: local, hashing, ollama:MODEL, onnx:MODEL, …"),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Try it too, as in conversation.session=0.2; may be repeated."),
    ] = None,
    questions: Annotated[int, typer.Option(metavar="COUNT", help="How many questions at most.", min=5)] = 200,
    k: Annotated[int, typer.Option("-k", metavar="COUNT", help="Within how many hits it must be found.", min=1)] = 10,
    seed: Annotated[int, typer.Option(metavar="NUMBER", help="Which questions are made.")] = 0,
    written: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help='Ask these instead: JSON Lines, {"question": "…", "id": "…"}.', exists=True),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Compare with what an earlier eval --json printed.", exists=True),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Measure recall with questions that are made from the memory.

    It is asked by words alone, as it is set up, and with the embedder or the settings named here; nothing is changed.
    Questions that another way finds later are listed.
    """
    from tellback.agent.assistant.cli.evaluation_files import (
        changed_lines,
        earlier_lines,
        read_earlier_places,
        read_written_questions,
    )
    from tellback.agent.assistant.wiring import changed_recall_settings, make_named_embedder
    from tellback.memory import evaluate

    asked = questions if written is None else read_written_questions(written)
    earlier = None if against is None else read_earlier_places(against)
    with opened_memory(context) as opened, progress_bar("eval", quiet=json) as advance:
        changed = changed_recall_settings(opened.memory.recall_settings, setting) if setting else None
        other, client = make_named_embedder(opened.settings, embedder) if embedder is not None else (None, None)

        async def measure() -> Evaluation:
            async with client or nullcontext():
                return await evaluate(
                    opened.memory,
                    namespace=opened.namespace,
                    embedder=other,
                    settings=changed,
                    questions=asked,
                    k=k,
                    seed=seed,
                    on_progress=lambda what, done, total: advance(done, total, what),
                )

        evaluation = run(measure())
    if json:
        print_json(evaluation)
    else:
        _print_evaluation(evaluation)
        for line in (*changed_lines(evaluation), *(earlier_lines(evaluation, earlier) if earlier is not None else ())):
            print_text(line)


def _print_evaluation(evaluation: Evaluation) -> None:
    """Print a table of the ways of asking, and a sentence that compares each with the memory as it is."""
    rows = []
    for line in evaluation.lines:
        shares = (f"{line.first:.3f}", f"{line.among:.3f}", f"{line.mrr:.3f}")
        gain = line.gain_mrr
        comparison = ("", "") if gain is None else (str(gain), _verdict(gain)[0])
        rows.append((line.way, str(line.questions), line.kind, *shares, *comparison))
    print_table(_EVALUATION_HEADINGS, rows)
    print_note()
    for way, name in evaluation.embedders.items():
        print_note(f"{way}: {name or 'no vectors'}")
    questions = format_count(evaluation.questions, "question")
    memories = format_count(evaluation.memories, "memory", "memories")
    is_made = any(answer.kind != "written" for answer in evaluation.answers)
    origin, by_rule = ("made from", f" by rule, seed {evaluation.seed}") if is_made else ("written about", "")
    print_note(f"{questions} {origin} {memories}{by_rule}; found: among the first {evaluation.k}.")
    gains = [(line.way, line.gain_mrr) for line in evaluation.lines if line.kind == "all"]
    text = "; ".join(f"{way} {_verdict(gain)[1]}" for way, gain in gains if gain is not None)
    print_text(f"{text[:1].upper()}{text[1:]}.")


def _verdict(gain: ConfidenceInterval) -> tuple[str, str]:
    """Return the verdict on an interval above, below or around zero, for a table and for a sentence."""
    if gain.low > 0:
        return "better", "would find more"
    return ("worse", "would find less") if gain.high < 0 else ("", "makes no sure difference")
