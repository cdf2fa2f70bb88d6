"""Keyboard of the terminal before the first prompt and while an answer is written: keys wait for the next prompt."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

_LINE_BYTES: Final = 4096
"""Most bytes of a line that a terminal keeps."""
_modes: Final[list[tuple[int, list[Any]]]] = []
"""Modes of the terminal before they were changed, innermost last."""


def typed_lines() -> list[str]:
    """Return the whole lines that were typed while the program started; one that is not finished stays for the prompt.

    The terminal has ended them by line feeds then, which an editor takes for line breaks inside one text.
    """
    lines: list[str] = []
    with suppress(OSError, ValueError):  # Windows selects sockets alone
        while select.select([sys.stdin], [], [], 0)[0] and (line := os.read(sys.stdin.fileno(), _LINE_BYTES)):
            lines.append(line.decode(errors="replace").rstrip("\n"))
    return lines


@contextmanager
def quiet_keyboard(*, quiet: bool = True) -> Iterator[None]:
    """Show no keys and translate no Enter inside the block; Ctrl-C works. Without termios nothing changes."""
    if not quiet:
        yield
        return
    try:
        import termios

        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
    except (ImportError, OSError, ValueError):  # Windows, or no terminal
        yield
        return
    mode = termios.tcgetattr(descriptor)
    mode[0] &= ~termios.ICRNL
    mode[3] &= ~(termios.ECHO | termios.ICANON)
    _modes.append((descriptor, before))
    termios.tcsetattr(descriptor, termios.TCSANOW, mode)
    try:
        yield
    finally:
        _modes.pop()
        with suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSANOW, before)


@contextmanager
def answering_keyboard() -> Iterator[None]:
    """Read lines as usual inside the block, which may stand in a quiet one; keys pressed before are discarded.

    So nothing typed ahead answers a question that had not been shown.
    """
    if not _modes:
        yield
        return
    import termios

    descriptor, usual = _modes[-1]
    quiet = termios.tcgetattr(descriptor)
    termios.tcsetattr(descriptor, termios.TCSAFLUSH, usual)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSANOW, quiet)
