"""Line editor of the chat: earlier prompts, search, completion, several lines, and pasted blocks as one prompt.

Enter sends; Alt-Enter (Escape, Enter) and Ctrl-J begin a new line. Ctrl-C empties the line; in an empty one, pressed
twice, it ends, as Ctrl-D does. ``prompt_toolkit`` is imported with this module, by a chat on a terminal alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.filters import Condition
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.shortcuts import CompleteStyle

from tellback.agent.assistant.cli.output import print_note

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

    from tellback.agent.assistant.cli.conversation.prompt_history import PromptHistory

PROMPT: Final = "> "
_CONTINUATION: Final = "… "
_PASTE_END: Final = "\x1b[201~"


class LineEditor:
    """Reads prompts from the terminal, or from *input*; typed text is shown there, or on *output*."""

    def __init__(
        self,
        history: PromptHistory,
        completer: Completer | None = None,
        *,
        input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        # Otherwise the editor asks the terminal for the cursor's position, and a late reply is read as typed text.
        os.environ.setdefault("PROMPT_TOOLKIT_NO_CPR", "1")
        is_command = Condition(lambda: self._session.default_buffer.text.startswith("/"))
        self._session: PromptSession[str] = PromptSession(
            history=history,
            completer=completer,
            complete_in_thread=True,
            complete_while_typing=is_command,
            complete_style=CompleteStyle.COLUMN,
            enable_history_search=~is_command,
            multiline=True,
            prompt_continuation=lambda width, number, wraps: "" if wraps else _CONTINUATION,
            key_bindings=_bindings(),
            reserve_space_for_menu=5,
            input=input,
            output=output,
        )
        self.history = history
        keys: Any = self._session.app.input  # that of Windows has no such parser
        if isinstance(parser := getattr(keys, "vt100_parser", None), Vt100Parser):
            keys.vt100_parser = _PasteParser(parser.feed_key_callback)

    def read(self) -> str | None:
        """Return the next prompt as it was typed; None at the end."""
        interrupted = False
        while True:
            try:
                if interrupted:
                    print_note("Ctrl-C once more, or Ctrl-D, leaves")
                return self._session.prompt(PROMPT)
            except EOFError:
                return None
            except KeyboardInterrupt:
                if interrupted:
                    return None
                interrupted = True

    def print_above(self, show: Callable[[], None]) -> bool:
        """Call *show* to print above the waiting prompt; any thread may call. Return False if no prompt waits."""
        app = self._session.app
        if not app.is_running or app.loop is None or app.context is None:
            return False
        try:
            app.loop.call_soon_threadsafe(lambda: run_in_terminal(show), context=app.context)
        except RuntimeError:  # it has just ended
            return False
        return True

    def edit(self, text: str, *, prompt: str) -> str | None:
        """Let the user edit *text* and return it; None where it is left empty or aborted."""
        editor: PromptSession[str] = PromptSession(
            input=self._session.app.input, output=self._session.app.output, key_bindings=_bindings()
        )
        try:
            return editor.prompt(prompt, default=text).strip() or None
        except (EOFError, KeyboardInterrupt):
            return None


class _PasteParser(Vt100Parser):
    """Parser of keys that looks for the end of a paste in what comes; the library's looks through all of it again."""

    def __init__(self, feed_key_callback: Callable[[KeyPress], None]) -> None:
        super().__init__(feed_key_callback)
        self._parts: list[str] = []
        self._last = ""

    def feed(self, data: str) -> None:
        """Take in the next keys, or the next part of a paste."""
        if self._in_bracketed_paste:
            self._parts.append(data)
            end = self._last + data
            self._last = end[-len(_PASTE_END) :]
            if _PASTE_END not in end:
                return
            data, self._last = "".join(self._parts), ""
            self._parts.clear()
        super().feed(data)


def _bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @bindings.add("escape", "enter")
    @bindings.add("c-j")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @bindings.add("c-c")
    @bindings.add("<sigint>")
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt, style="class:aborting")

    return bindings
