"""Views of an answer as it arrives: Markdown rendered block by block on a terminal with colours, plain text elsewhere.

No view shows a secret of the prompt that is answered, even if the model repeats it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from agent.assistant.cli.output import console, escape_controls, has_styles, print_piece, print_text, screen_width

if TYPE_CHECKING:
    from rich.live import Live

_FENCE: Final = re.compile(r" {0,3}(?P<marks>`{3,}|~{3,})")
_WORD_OR_LINE_FEED: Final = re.compile(r"\n|[^\S\n]*[^\s]+[^\S\n]*|[^\S\n]+")
_PENDING_LINES: Final = 12
"""Lines of an unfinished block that are shown while it grows."""


class AnswerView(Protocol):
    """Shows one answer; ``close`` ends it, also where it was broken off, and a new answer may follow."""

    def write(self, text: str) -> None:
        """Show a piece of the answer."""
        ...

    def close(self) -> None:
        """Show the text held back, and end the line."""
        ...


class SecretMask:
    """Replacement of the secrets of a prompt by marks that name their kinds."""

    def __init__(self, prompt: str) -> None:
        from memory.internals import find_secrets

        self._kinds = {prompt[span.start : span.end]: span.kind for span in find_secrets(prompt)}

    def __bool__(self) -> bool:
        return bool(self._kinds)

    @property
    def kinds(self) -> list[str]:
        """Kinds of the secrets, each once."""
        return list(dict.fromkeys(self._kinds.values()))

    def apply(self, text: str) -> str:
        """Return *text* without the secrets."""
        from memory.internals import redaction_mark

        for secret, kind in self._kinds.items():
            text = text.replace(secret, redaction_mark(kind))
        return text


class PlainView:
    """View that prints words as they come; on a terminal lines are broken between them, not within.

    Where the prompt holds a secret, it prints whole lines.
    """

    def __init__(self, mask: SecretMask) -> None:
        self._mask, self._held, self._column = mask, "", 0
        self._width = screen_width() if sys.stdout.isatty() else None

    def write(self, text: str) -> None:
        """Print the pieces of *text* that are whole."""
        if self._width is None and not self._mask:
            print_piece(text)
            self._column = 0 if text.endswith("\n") else 1
            return
        self._held += text
        end = self._held.rfind("\n") if self._mask else max(self._held.rfind(" "), self._held.rfind("\n"))
        whole, self._held = self._held[: end + 1], self._held[end + 1 :]
        self._print(whole)

    def close(self) -> None:
        """Print the text held back, and end the line."""
        self._print(self._held)
        self._held = ""
        if self._column:
            print_text()
            self._column = 0

    def _print(self, text: str) -> None:
        """Print *text*; a word that does not fit on the line begins the next one."""
        from rich.cells import cell_len

        for word in _WORD_OR_LINE_FEED.findall(self._mask.apply(text)):
            shown = escape_controls(word)
            if shown.endswith("\n"):
                print_piece(shown)
                self._column = 0
                continue
            if self._width is not None and self._column > 0 and self._column + cell_len(shown.rstrip()) > self._width:
                print_piece("\n")
                self._column, shown = 0, shown.lstrip()
            print_piece(shown)
            self._column += cell_len(shown)


class MarkdownView:
    """View that renders each block of Markdown once it is whole, and shows the unfinished one as it grows."""

    def __init__(self, mask: SecretMask) -> None:
        self._mask, self._pending, self._printed = mask, "", False
        self._console = console()
        self._live: Live | None = None

    def write(self, text: str) -> None:
        """Render the blocks that *text* completes."""
        self._pending += escape_controls(text)
        blocks, self._pending = split_blocks(self._pending)
        if blocks:
            self._stop()
            for block in blocks:
                self._render(block)
        if self._pending.strip():
            self._show_pending()

    def close(self) -> None:
        """Render the last block."""
        self._stop()
        if self._pending.strip():
            self._render(self._pending)
        self._pending, self._printed = "", False

    def _render(self, block: str) -> None:
        from rich.markdown import Markdown

        if self._printed:
            self._console.print()
        # A link is shown with its address: its text alone may hide the target.
        self._console.print(Markdown(self._mask.apply(block), hyperlinks=False, code_theme="ansi_dark"))
        self._printed = True

    def _show_pending(self) -> None:
        from rich.live import Live
        from rich.text import Text

        lines = self._mask.apply(self._pending).strip("\n").split("\n")[-_PENDING_LINES:]
        shown = Text("\n".join(lines))
        if self._printed:
            shown = Text("\n").append_text(shown)
        if self._live is None:
            self._live = Live(
                shown,
                console=self._console,
                transient=True,
                refresh_per_second=12,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        self._live.update(shown)

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def split_blocks(text: str) -> tuple[list[str], str]:
    """Return the finished blocks of the Markdown *text*, and the rest.

    A block ends with an empty line outside of fenced code; an indented line after it, as in a list, continues it.
    """
    blocks: list[str] = []
    block: list[str] = []
    fence = ""
    *lines, rest = text.split("\n")
    for index, line in enumerate(lines):
        block.append(line)
        if (match := _FENCE.match(line)) is not None:
            marks = match["marks"]
            if not fence:
                fence = marks
            elif marks.startswith(fence) and not line.strip().strip(marks[0]):
                fence = ""
        follower = lines[index + 1] if index + 1 < len(lines) else rest
        if not line.strip() and not fence and follower and not follower[0].isspace():
            if any(map(str.strip, block)):
                blocks.append("\n".join(block).strip("\n"))
            block = []
    return blocks, "\n".join((*block, rest))


def answer_view(prompt: str, *, renders: bool) -> AnswerView:
    """Return the view of the answer to *prompt*; *renders*: the answer may be Markdown of a model."""
    mask = SecretMask(prompt)
    return MarkdownView(mask) if renders and has_styles(sys.stdout) else PlainView(mask)


def masked_kinds(prompt: str) -> Sequence[str]:
    """Return the kinds of secrets in *prompt*, in words."""
    return SecretMask(prompt).kinds
