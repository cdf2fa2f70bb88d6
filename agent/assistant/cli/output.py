r"""Output of commands: lines, JSON and tables on standard output, notes and progress on standard error.

Text that others wrote is made safe to print. A memory may hold escape sequences that clear the screen, marks that
reverse the direction of writing, or invisible characters. They stay in the memory as they were said; on a screen they
are shown as ``\\x1b`` or ``\\u202e``. A table is cut to the width of the terminal, or to 80 columns where it is piped,
unless it is asked for whole.

A line about an operation says what changed in which memory, and never shows the text of memories. A line about a score
gives its parts, the largest first, and the words that matched.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO

from tellback.agent.assistant.cli.json_output import json_object
from tellback.agent.assistant.local_time import to_local

if TYPE_CHECKING:
    from rich.console import Console

    from tellback.memory import LongTermMemory, Memory
    from tellback.memory.internals import MemoryChange, Operation, TermMatch

IN_CHAT: Final[ContextVar[bool]] = ContextVar("in_chat", default=False)
"""True where the command was typed in a chat, so that hints name commands with a slash."""
_CONTROL_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, but tab and line feed
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction marks, embeddings, overrides, isolates
    "\u200b\u2028\u2029\u2060-\u2064\ufeff\ufff9-\ufffb"  # breaks and joins without a shape
    "\ud800-\udfff\U000e0000-\U000e007f]"  # halves of characters, and tags
)


def describe_profile(memory: LongTermMemory) -> str:
    """Return the profile of the memory's embedder in words: the weights of its cosines, and how they are known."""
    from tellback.memory.internals import known_profile

    space = memory.store.space
    if space is None:
        return "nothing has a vector yet"
    profile = memory.embedding.profile(space.fingerprint)
    known = known_profile(space.fingerprint) is not None
    if not known and profile.unrelated is None:
        return "not known: a conservative one; the next write in a memory of 20 or more measures it by 64 sentences"
    base = f", counted from {profile.base:g}" if profile.base else ""
    return (
        f"{'known' if known else 'measured by 64 sentences'}: a cosine{base} weighs {profile.notes:g} in notes and "
        f"{profile.turns:g} in turns, where the words weigh 1; unrelated texts have up to {profile.unrelated:g}"
    )


def escape_controls(text: str) -> str:
    """Return *text* with control and invisible characters as escapes; line feeds and tabs stay."""
    text = text.replace("\r\n", "\n").replace("\r", r"\x0d")  # by number, as the others that move the cursor
    return _CONTROL_CHARACTERS.sub(lambda match: ascii(match[0])[1:-1], text)


def one_line(text: str) -> str:
    """Return *text* on one line, safe to print."""
    return " ".join(escape_controls(text).split())


def escape_json_controls(text: str) -> str:
    """Return the JSON *text* with control and invisible characters as JSON escapes; its value stays the same."""
    return _CONTROL_CHARACTERS.sub(lambda match: json.dumps(match[0])[1:-1], text)


def print_json(answer: Any) -> None:
    """Print one JSON object on one line."""
    ascii_only = codecs.lookup(sys.stdout.encoding or "ascii").name != "utf-8"
    _write(escape_json_controls(json.dumps(answer, ensure_ascii=ascii_only, default=json_object)))


def print_text(text: str = "", *, indent: str = "") -> None:
    """Print lines for people; a terminal breaks them between words.

    *indent* begins every line but the first, so that no text can pass for another.
    """
    lines = escape_controls(text)
    if sys.stdout.isatty():
        lines = "\n".join(wrap_text(lines, max(screen_width() - len(indent), _MIN_TEXT_WIDTH)))
    _write(lines.replace("\n", "\n" + indent))


def print_line(line: str) -> None:
    """Print a line that is safe already; for a terminal it may hold a link or bold words."""
    _write(line)


def print_piece(text: str) -> None:
    """Print a piece of a line without a line feed."""
    _write(escape_controls(text), end="")


def print_note(text: str = "", *, command: str = "") -> None:
    """Print a line beside the answer, on standard error; a terminal breaks it between words.

    A *command* behind it stays in one piece, to be copied.
    """
    line = escape_controls(text)
    if command and IN_CHAT.get():
        command = "/" + command.removeprefix("tellback ")
    if command:
        line += " " + escape_controls(command)
    elif sys.stderr.isatty():
        line = "\n".join(wrap_text(line, screen_width()))
    _write(line, error=True)


def _write(text: str, *, end: str = "\n", error: bool = False) -> None:
    if sys.platform == "win32":  # where terminals need help with styles
        import typer

        typer.echo(text + end, nl=False, err=error)
        return
    stream = sys.stderr if error else sys.stdout
    stream.write(text + end)
    stream.flush()


def escape_unencodable() -> None:
    """Make the standard streams escape characters that their encoding lacks, so that printing never fails."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def fit_line(text: str, *, indent: int = 0) -> str:
    """Return the line *text* cut to the screen behind *indent* columns."""
    return _truncate_cell(text, max(screen_width() - indent, _MIN_TEXT_WIDTH))


def format_day(moment: datetime | None) -> str:
    """Return the day of *moment* in the local zone; "" for None."""
    return "" if moment is None else f"{_local_time(moment):%Y-%m-%d}".rjust(10, "0")


def format_minute(moment: datetime | None) -> str:
    """Return day and time of *moment* in the local zone; "" for None."""
    return "" if moment is None else f"{_local_time(moment):%Y-%m-%d %H:%M}".rjust(16, "0")


def format_count(count: int, what: str, several: str = "") -> str:
    """Return a count in words, such as ``3 memories``."""
    return f"{count} {what if count == 1 else several or what + 's'}"


def _local_time(moment: datetime) -> datetime:
    try:
        return to_local(moment)
    except (OverflowError, OSError, ValueError):  # at the ends of the calendar
        return moment


_COLUMN_GAP = "  "
_LABEL_WIDTH = 10
_MAX_COLUMN_WIDTH = 28
_MIN_TEXT_WIDTH = 20
"""Cells to which a text is wrapped at least; where a table leaves its last column less, others are left out."""


def is_terminal(stream: TextIO) -> bool:
    """Return whether *stream* is a terminal that knows more than lines of text."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def has_styles(stream: TextIO) -> bool:
    """Return whether *stream* is a terminal that shows bold and coloured words, and its user wants them."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def console(*, error: bool = False) -> Console:
    """Return the console of standard output, or of standard error."""
    from rich.console import Console

    plain = not has_styles(sys.stderr if error else sys.stdout)
    return Console(stderr=error, highlight=False, width=screen_width(), color_system=None if plain else "auto")


def screen_width() -> int:
    """Return the columns of the terminal; 80 where there is none."""
    return shutil.get_terminal_size().columns


def shown_path(path: Path | str) -> str:
    """Return *path* as people write it, with a tilde for the home."""
    home = os.environ.get("HOME") or str(Path.home())
    text = str(path)
    return f"~{text[len(home) :]}" if text.startswith(home.rstrip(os.sep) + os.sep) else text


def print_labelled(label: str, text: str) -> None:
    """Print *text* behind its *label*, broken between words to the width of the screen, all lines below each other."""
    _write(hang(f"{label:<{_LABEL_WIDTH}}", one_line(text)))


def hang(label: str, text: str) -> str:
    """Return *text* behind *label*, wrapped to the screen, its further lines below the first."""
    lines = wrap_text(text, max(screen_width() - len(label), _MIN_TEXT_WIDTH))
    return label + ("\n" + " " * len(label)).join(lines)


def wrap_text(text: str, width: int) -> list[str]:
    """Return *text* in lines of at most *width* cells, broken between words where that can be; short ones stay."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        if _is_narrow(paragraph):
            whole = len(paragraph) <= width
            lines += [paragraph] if whole else textwrap.wrap(paragraph, width, break_on_hyphens=False)
        else:
            from rich.console import Console
            from rich.text import Text

            lines += [line.plain.rstrip() for line in Text(paragraph).wrap(Console(), width)]
    return lines


def _is_narrow(text: str) -> bool:
    """Return whether each character of *text* takes one cell of the screen; without rich, which is slow to import."""
    return text.isascii() or not any(
        unicodedata.east_asian_width(character) in "WF" or unicodedata.combining(character) for character in text
    )


def print_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, whole: int = 0, full: bool | None = None
) -> None:
    """Print *rows* under *headings*, columns aligned; only the last one may be long.

    Cells are cut to the width of the screen, unless *full* is True, or None and the output is piped. The first *whole*
    columns are never cut: ids, which are to be copied. Where cells are cut, a column between them and the last is left
    out if it is empty, and the rightmost ones if they leave the last too little room. A note on standard error says
    that a piped table was cut.
    """
    from rich.cells import cell_len, set_cell_size

    lines = [[one_line(cell) for cell in row] for row in (headings, *rows)]
    cuts = sys.stdout.isatty() if full is None else not full
    *widths, last_width = (max(map(cell_len, column)) for column in zip(*lines, strict=True))
    columns = list(range(len(widths)))
    if cuts:
        widths = [width if column < whole else min(width, _MAX_COLUMN_WIDTH) for column, width in enumerate(widths)]
        columns = [column for column in columns if column < max(whole, 1) or any(line[column] for line in lines[1:])]

    def room() -> int:
        return screen_width() - sum(widths[column] + len(_COLUMN_GAP) for column in columns)

    while cuts and len(columns) > max(whole, 1) and room() < min(last_width, _MIN_TEXT_WIDTH):
        columns.pop()
    shortened = False
    for line in lines:
        end = _truncate_cell(line[-1], max(room(), _MIN_TEXT_WIDTH)) if cuts else line[-1]
        shortened |= end != line[-1]
        cells = [set_cell_size(_truncate_cell(line[column], widths[column]), widths[column]) for column in columns]
        _write(_COLUMN_GAP.join((*cells, end)).rstrip())
    if shortened:
        note_shortened()


def note_shortened() -> None:
    """Print on standard error that the piped texts are shortened; on a terminal the ellipses show it."""
    if not sys.stdout.isatty():
        print_note("texts are shortened; --full prints them whole")


def _truncate_cell(text: str, width: int) -> str:
    """Return *text* in at most *width* cells of the screen (a Chinese character takes two)."""
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


class OnStep(Protocol):
    """Function of the work done, the whole work (0: not known), and the last item."""

    def __call__(self, done: int, total: int = 0, last: str = "") -> None:
        """Show the step."""


@contextmanager
def progress_bar(what: str, *, quiet: bool, in_bytes: bool = False) -> Iterator[OnStep]:
    """Show the progress of the work, in items or bytes; yields a function that takes (done, total, the last item)."""
    if quiet or not sys.stderr.isatty():
        yield lambda done, total=0, last="": None
        return
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn() if in_bytes else MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[last]}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis")),
    )
    with Progress(*columns, console=console(error=True), transient=True) as bar:
        task = bar.add_task(what, total=None, last="")

        def advance(done: int, total: int = 0, last: str = "") -> None:
            bar.update(task, completed=done, total=total, last=one_line(last))

        yield advance


_KINDS_WITHOUT_DETAIL: Final = ("pin", "unpin", "disable", "enable")
"""Kinds of operation whose name says everything."""


def operation_line(operation: Operation, memory: str | None = None) -> str:
    """Return an operation in one line: id, time, kind, actor, its changes (of *memory*), and what undid it."""
    line = f"{operation.id}  {format_minute(operation.at)}  {operation.kind} by {operation.actor}"
    if detail := _operation_detail(operation, memory):
        line += f": {detail}"
    if operation.undoes:
        line += f"  (takes back {operation.undoes})"
    return line + (f"  (taken back by {operation.undone_by})" if operation.undone_by else "")


def demotion_marks(memory: Memory) -> list[str]:
    """Return why *memory* is not recalled by default: "question", "small talk", "demoted"; nothing for evidence."""
    from tellback.memory.internals import with_utterance

    judged = with_utterance(memory)
    if judged.is_evidence or judged.utterance is None:
        return [] if judged.is_evidence else ["demoted"]
    return ["demoted" if memory.evidence is False else judged.utterance.value]


def version_line(version: Memory) -> str:
    """Return id, validity and actor of a version in one line, each only if it says something."""
    parts = [f"as {version.id}"] if version.retired_at is not None else []
    if version.valid_from is not None or version.valid_to is not None:
        since = f" from {format_minute(version.valid_from)}" if version.valid_from is not None else ""
        until = f" until {format_minute(version.valid_to)}" if version.valid_to is not None else ""
        parts.append(f"holds{since}{until}")
    if version.actor != "user":
        parts.append(f"by {version.actor}")
    return ", ".join(parts)


def _operation_detail(operation: Operation, memory: str | None) -> str:
    changes = [change for change in operation.changes if memory in (None, change.id)]
    first = operation.changes[0].id if operation.changes else ""
    if operation.kind == "merge" and memory is not None:
        others = [change.id for change in operation.changes[1:]]
        return f"with {', '.join(others)}" if memory == first else f"into {first}"
    if memory is not None and any(change.before is not None for change in changes) and operation.kind == "remember":
        return f"replaced by {first}"
    if operation.kind in _KINDS_WITHOUT_DETAIL:
        return ""
    details = list(dict.fromkeys(part for change in changes for part in _field_changes(change)))
    return ", ".join(details) if memory is not None or len(changes) == 1 or len(details) == 1 else ""


def _field_changes(change: MemoryChange) -> Iterator[str]:
    """Yield the changes of fields that are kept without versions."""
    if "path" in change.new:
        yield f"to {change.new['path']}"
    before, after = (list(fields.get("tags") or ()) for fields in (change.old, change.new))
    changed = [f"+{tag}" for tag in after if tag not in before] + [f"-{tag}" for tag in before if tag not in after]
    if changed:
        yield f"tags {' '.join(changed)}"
    for name, what, none in (("importance", "importance", "none"), ("expires_at", "expires", "never")):
        if name in change.new:
            line = f"{what} {_field_value_text(change.new[name], none)}"
            old = change.old.get(name)
            yield line if old is None else f"{line} (was {_field_value_text(old, none)})"
    if "about" in change.new:
        was = f" (was {change.old['about']!r})" if change.old.get("about") else ""
        yield f"about {change.new['about']!r}{was}" if change.new["about"] else f"about nothing{was}"
    for name in ("pinned", "disabled"):
        if name in change.new:
            yield name if change.new[name] else f"not {name}"


def _field_value_text(value: Any, none: str) -> str:
    if value is None:
        return none
    return format_minute(datetime.fromisoformat(value)) if isinstance(value, str) else f"{value:g}"


_MATCH_LOCATIONS = {"here": "", "question": " in the question it answers"}
_EXACT_SIMILARITY = 0.995
_NEGLIGIBLE_PART = 0.005


def score_line(score: float, parts: Mapping[str, float]) -> str:
    """Return a score as the sum of its parts; those that round to nothing are left out."""
    seen = sorted(
        (part for part in parts.items() if abs(part[1]) >= _NEGLIGIBLE_PART), key=lambda part: (-part[1], part[0])
    )
    line = f"{score:z.2f}"
    for number, (name, value) in enumerate(seen):
        sign = "= " if number == 0 and value > 0 else "= -" if number == 0 else "+ " if value > 0 else "- "
        line += f" {sign}{name} {abs(value):.2f}"
    return line


def matched_terms_line(matched: Sequence[TermMatch]) -> str:
    """Return the words of a question with the terms they matched: the same one, or (``~``) one that is near."""
    if not matched:
        return "no word of the question, nor one near it"
    terms = []
    for match in matched:
        near = "" if match.similarity >= _EXACT_SIMILARITY else f" ~ {match.by} {match.similarity:.2f}"
        terms.append(f"{match.word}{near}{_MATCH_LOCATIONS[match.where]}")
    return ", ".join(terms)
