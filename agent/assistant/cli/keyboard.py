"""Keyboard of the terminal while an answer is written: keys wait for the next prompt, and are not shown meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

_modes: Final[list[tuple[int, list[Any]]]] = []
"""Modes of the terminal before they were changed, innermost last."""


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
