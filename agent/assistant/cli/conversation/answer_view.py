"""Views of an answer as it arrives: Markdown of a model rendered block by block on a terminal, plain text elsewhere.

No view shows a secret of the prompt that is answered, even if the model repeats it.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final

from tellback.agent.assistant.cli.output import console, escape_controls, is_terminal, print_piece, print_text
from tellback.agent.assistant.conversation.secret_mask import SecretMask

if TYPE_CHECKING:
    from rich.live import Live

_FENCE: Final = re.compile(r" {0,3}(?P<marks>`{3,}|~{3,})")
_PENDING_LINES: Final = 12
"""Lines of an unfinished block that are shown while it grows."""


class PlainView:
    """View that prints plain text: line by line on a terminal and where the prompt holds a secret, else as it comes."""

    def __init__(self, mask: SecretMask) -> None:
        self._mask, self._held, self._is_open = mask, "", False
        self._by_lines = bool(mask) or sys.stdout.isatty()

    def write(self, text: str) -> None:
        """Print what is whole of *text*."""
        if not self._by_lines:
            print_piece(text)
            self._is_open = not text.endswith("\n")
            return
        *lines, self._held = (self._held + text).split("\n")
        for line in lines:
            print_text(self._mask.apply(line))

    def close(self) -> None:
        """Print the text held back, and end the line."""
        if self._held or self._is_open:
            print_text(self._mask.apply(self._held))
        self._held, self._is_open = "", False


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


def answer_view(prompt: str, *, renders: bool) -> PlainView | MarkdownView:
    """Return the view of the answer to *prompt*; *renders*: the answer may be Markdown of a model.

    ``close`` ends an answer, also where it was broken off, and a new one may follow.
    """
    mask = SecretMask(prompt)
    return MarkdownView(mask) if renders and is_terminal(sys.stdout) else PlainView(mask)
