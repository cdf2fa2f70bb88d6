"""Line at the end of a turn: memories kept, folded or left out, the tools that a model used, and the tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tellback.agent.assistant.cli.output import format_count, one_line
from tellback.agent.short_ids import short_id

if TYPE_CHECKING:
    from tellback.agent.assistant.conversation.background_worker import Announcement
    from tellback.agent.assistant.conversation.conversation import Kept, TurnEnded
    from tellback.agent.assistant.conversation.facts import KeptFacts
    from tellback.agent.context.line_writer import LineProgress
    from tellback.agent.results import ToolCallRecord, Usage

_NOTE_LENGTH: Final = 60
_NOTING_TOOLS: Final = ("remember", "replace_memory")
SEPARATOR: Final = " · "


def turn_line(turn: TurnEnded, *, unsaved: int = 0) -> str:
    """Return the line about *turn*; "" where there is nothing to report."""
    result, parts = turn.result, [*_kept_parts(turn.kept)]
    if unsaved:
        parts.append(f"{format_count(unsaved, 'turn')} not written yet")
    parts += _tool_parts(result.tool_runs)
    if result.calls and result.usage.total:
        parts.append(_tokens(result.usage))
    return SEPARATOR.join(parts)


def _kept_parts(kept: Kept) -> Iterator[str]:
    """Yield what was kept of the user's words."""
    if kept.id is not None:
        yield f"kept {short_id(kept.id)}"
    if kept.secrets:
        yield f"{', '.join(kept.secrets)} not kept; /keep to keep it"
    if kept.known is not None:
        yield f"known already, folded into {short_id(kept.known)}"
    if kept.near is not None:
        yield f"nearly as {short_id(kept.near)}"
    if kept.replaced:
        yield f"replaces {', '.join(map(short_id, kept.replaced))}"
    if kept.may_replace is not None:
        yield f"may replace {short_id(kept.may_replace)}"
    if kept.facts:
        yield format_count(kept.facts, "fact") + " noted"


def announcement_lines(announcement: Announcement) -> list[str]:
    """Return the lines about what was done beside the chat."""
    from tellback.agent.assistant.conversation.background_worker import LinesFailed
    from tellback.agent.assistant.conversation.facts import KeptFacts

    if isinstance(announcement, KeptFacts):
        return _fact_lines(announcement)
    if isinstance(announcement, LinesFailed):
        return [f"no lines written about memories: {one_line(announcement.problem)}"]
    return [_written_line(announcement)]


def _fact_lines(kept: KeptFacts) -> list[str]:
    """Return a line for each kept fact of a turn, with the memories it replaces; the last line has the tokens."""
    from tellback.agent.errors import shorten

    if kept.problem:
        return [f"no facts looked for: {one_line(kept.problem)}"]
    lines = [f"replaces {', '.join(map(short_id, kept.ended))}"] if kept.ended else []
    for text, report in zip(kept.texts, kept.reports, strict=True):
        replaces = f", replaces {', '.join(map(short_id, report.replaced))}" if report.replaced else ""
        lines.append(f"kept {short_id(report.id)} “{shorten(one_line(text), _NOTE_LENGTH)}”{replaces}")
    if lines:
        lines[-1] += f"{SEPARATOR}{_tokens(kept.usage)}"
    return lines


def _written_line(progress: LineProgress) -> str:
    """Return the line about the lines that a model wrote in the background."""
    count = format_count(progress.written, "memory", "memories")
    return f"noted what {count} {'is' if progress.written == 1 else 'are'} about{SEPARATOR}{_tokens(progress.usage)}"


def _tokens(usage: Usage) -> str:
    return f"{usage.input:,} + {usage.output:,} tokens"


def _tool_parts(runs: tuple[ToolCallRecord, ...]) -> Iterator[str]:
    """Yield the tools that were called, each once with its number; a note is shown with its words."""
    from tellback.agent.errors import shorten
    from tellback.memory.internals import redact_secrets

    counts: dict[str, int] = {}
    for run in runs:
        name = one_line(run.call.name)
        text = run.call.arguments.get("text")
        if name in _NOTING_TOOLS and isinstance(text, str) and not run.result.is_error:
            words, _ = redact_secrets(one_line(text))
            yield f"noted “{shorten(words, _NOTE_LENGTH)}”"
            continue
        label = f"{name} failed" if run.result.is_error else name
        counts[label] = counts.get(label, 0) + 1
    for label, count in counts.items():
        yield label if count == 1 else f"{label} {count} times"
