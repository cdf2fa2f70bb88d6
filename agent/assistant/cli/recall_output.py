"""Output of ``tellback recall``: the hits for a question with source, time and score.

It does not import typer, so that the plain forms of the command (``plain_recall``) need not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Unpack

from tellback.agent.assistant.cli.command_context import GlobalOptions, opened_memory, run
from tellback.agent.assistant.cli.excerpt import excerpt, question_pattern
from tellback.agent.assistant.cli.json_output import fields_left_out, found_json
from tellback.agent.assistant.cli.listing import keep_memories
from tellback.agent.assistant.cli.output import (
    describe_profile,
    format_day,
    hang,
    matched_terms_line,
    note_shortened,
    one_line,
    print_json,
    print_line,
    print_note,
    print_text,
    score_line,
)
from tellback.agent.assistant.cli.served_recall import served_recall
from tellback.agent.assistant.local_time import to_local
from tellback.agent.short_ids import short_id

if TYPE_CHECKING:
    from tellback.agent.assistant.wiring import OpenedMemory
    from tellback.memory import Hit, RecallOptions, RecallResult

_ABSTENTION_NOTES = {
    "nothing": "not sure that this is about it; the nearest:",
    "other": "something like it was said, but by or about someone else:",
}


def print_recall(
    settings: GlobalOptions,
    question: str,
    k: int,
    *,
    full: bool = False,
    json: bool = False,
    narrow: Callable[[OpenedMemory], RecallOptions] | None = None,
    **options: Unpack[RecallOptions],
) -> None:
    """Ask the memory of *settings*, and print at most *k* hits; *options* are those of ``LongTermMemory.recall``.

    *narrow* returns further options that need the open memory.
    """
    explain, profile = options.get("explain", False), ""
    # What stands behind an explanation in words is asked of the memory itself.
    is_servable = narrow is None and (json or not explain)
    served = served_recall(settings.flags, question, k, options) if is_servable else None
    if served is not None and json:
        left_out = fields_left_out(explain=explain, around=bool(options.get("neighbours")))
        hits = [{name: value for name, value in hit.items() if name not in left_out} for hit in served.found["hits"]]
        print_json({**served.found, "hits": hits})
        return
    if served is not None:
        result, language = served.result(), served.language
        keep_memories(settings.configuration().settings, [hit.memory for hit in result])
    else:
        with opened_memory(settings) as opened:
            narrowed: RecallOptions = {} if narrow is None else narrow(opened)
            options |= narrowed
            result = run(opened.desk.recall(question, k, **options))
            if not json:
                keep_memories(opened.settings, [hit.memory for hit in result])
            language = opened.analyzer.language
            profile = describe_profile(opened.memory) if explain and not json else ""
    if json:
        print_json(found_json(result, explain=explain, around=bool(options.get("neighbours"))))
        return
    _print_hits(result, question_pattern(question), language, explain=explain, full=full)
    if profile:
        print_note(f"embedder profile: {profile}")


def _print_hits(
    result: RecallResult, pattern: re.Pattern[str] | None, language: str, *, explain: bool, full: bool
) -> None:
    from tellback.memory.internals import CONVERSATION, with_days

    shortened = False
    for text in result.notes:
        print_note(text)
    if not result.hits and result.left_out:
        print_text(f"Nothing is shown: {result.left_out[-1].reason}.")
    elif not result.hits:
        print_text("Nothing is remembered about that.")
    elif result.abstain is not None:
        print_note(_ABSTENTION_NOTES[result.abstain])
    days = {hit.memory.id: format_day(hit.memory.occurred_at or hit.memory.recorded_at) for hit in result}
    for number, hit in enumerate(result, start=1):
        mark = f"{number}. "
        margin = " " * len(mark)
        # Further lines are indented deeper than the line of the origin: no text can imitate that line.
        text, at = (not full and hit.passage) or hit.memory.text, hit.memory.occurred_at or hit.memory.recorded_at
        if hit.partition == CONVERSATION and at is not None:
            text = with_days(text, language, to_local(at).date())
        lines, cut = excerpt(text, pattern, indent=len(margin) + 4, full=full)
        shortened |= cut
        print_line(mark + f"\n{margin}  ".join(lines))
        print_text(hang(margin, _hit_origin_line(hit, days, full=full)))
        for side, turns in (("before", hit.before), ("after", hit.after)):
            for turn in turns:
                who = "" if hit.partition == "documents" else one_line(turn.speaker or turn.role or turn.kind) + ": "
                print_text(f"{margin}{side}: {who}{one_line(turn.text)}", indent=margin + "  ")
        if explain:
            if hit.memory.about:
                print_text(hang(margin, f"about: {hit.memory.about}"))
            print_text(hang(margin, score_line(hit.score, hit.parts)))
            print_text(hang(margin, f"words: {one_line(matched_terms_line(hit.matched))}"))
            if hit.memory.utterance is not None:
                reason = hit.memory.utterance_reason
                print_text(f"{margin}said: {hit.memory.utterance.value}" + (f" ({reason})" if reason else ""))
    if shortened:
        note_shortened()


def _hit_origin_line(hit: Hit, days: Mapping[str, str], *, full: bool) -> str:
    """Return origin, day, score and id of a hit in one line, and its newer or older statement; *days* are by id."""
    memory, source = hit.memory, hit.memory.source
    if source is not None and source.document is not None:
        page = f", p. {source.page}" if source.page is not None else ""
        parts = [source.document + page, " > ".join(source.heading)]
    else:
        parts = [memory.speaker or memory.role or memory.kind, format_day(memory.occurred_at or memory.recorded_at)]
    shown = (lambda id: id) if full else short_id
    parts += [f"score {hit.score:z.2f}", shown(memory.id)]
    if hit.outdated_by is not None:
        until = f"until {days[hit.outdated_by]}, " if days.get(hit.outdated_by) else ""
        parts.append(f"{until}outdated by {shown(hit.outdated_by)}")
    if hit.later_than is not None:
        parts.append(f"later than {shown(hit.later_than)}, may have changed it")
    return " · ".join(one_line(part) for part in parts if part)
