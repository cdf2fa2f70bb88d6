"""Pictures of the tour, from a real run in a terminal: ``python docs/tour_pictures.py`` writes docs/tour/*.svg.

Needs tmux. A first week is lived through in a home folder of its own, and at last in a second one, the other machine.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

COLUMNS, LINES = 92, 40
PROMPT = "$ "
PASTED = "\x1b[200~The recipe:\n- 500 g flour\n- 7 g salt\n- 猫粮 for Misu\x1b[201~"


@dataclass(frozen=True)
class Scene:
    """Picture *name*: what is typed, each with the words to wait for afterwards."""

    name: str
    steps: Sequence[tuple[str, str]]


SCENES = (
    Scene(
        "0-first-minute",
        (
            ("tellback\n", "\n$"),
            ("tellback init\n", "Number [2]"),
            ("\n", "Your name"),
            ("Mira\n", "anguage"),
            ("\n", "ime zone"),
            ("Europe/Lisbon\n", "\n$"),
        ),
    ),
    Scene(
        "1-first-talk",
        (
            ("tellback chat\n", "leaves.\n>"),
            ("My sister Ana lives in Porto.\n", "kept"),
            ("Ana hates walnuts.\n", "walnuts.”\nkept"),
            ("Where does my sister live?\n", "[1] you"),
            ("no, my sister Ana lives in Braga\n", "[y/N"),
            ("y\n", "corrected"),
            (PASTED, "Misu"),
            ("\n", "Noted: “The recipe"),
            ("/quit\n", "/quit\n$"),
        ),
    ),
    Scene(
        "2-remember-and-attach",
        (
            ("tellback remember 'The plumber comes on Friday.'\n", "stored"),
            ("tellback ask --attach lease.md 'How long is the notice period?'\n", "[1] "),
            ("tellback chat -c\n", "leaves.\n>"),
            ("What does Ana not like to eat?\n", "[1] you"),
            ("forget that the plumber comes on Friday\n", "Go on?"),
            ("y\n", "forgot 1 memory"),
            ("/quit\n", "/quit\n$"),
        ),
    ),
    Scene(
        "3-moving-in",
        (
            ("tellback import chatgpt.zip --dry-run\n", "custom instructions"),
            ("tellback import chatgpt.zip\n", "kept 4"),
            ("tellback import chatgpt.zip\n", "known already"),
            ("tellback sessions\n", "Trip to Japan"),
            ("tellback ask 'Which hotel did I like in Kyoto?'\n", "[1] you"),
        ),
    ),
    Scene(
        "4-another-machine",
        (
            ("tellback backup memory-backup.db\n", "MB"),
            ("export HOME=$OTHER && cd\n", "cd\n$"),
            ("tellback restore ~/memory-backup.db\n", "10 memories"),
            ("tellback ask 'Where does my sister live?'\n", "[1] you"),
        ),
    ),
)


class Tmux:
    """Terminal of tmux in *folder*, whose screen can be read with its colours."""

    def __init__(self, folder: Path, environment: dict[str, str], columns: int = COLUMNS) -> None:
        self._socket = str(folder / "tmux")
        self._folder = folder
        size = ["-x", str(columns), "-y", str(LINES)]
        shell = ["bash", "--norc", "--noprofile"]
        names = [f"{name}={value}" for name, value in environment.items()]
        self._call("-f", "/dev/null", "new-session", "-d", *size, "env", "-i", *names, *shell)

    def type(self, keys: str) -> None:
        """Press *keys*, as they are."""
        self._call("send-keys", "-l", keys.replace("\n", "\r") if "\x1b" not in keys else keys)

    def until(self, words: str, seconds: float = 120) -> None:
        """Wait until the last lines hold *words*, and nothing changes any more."""
        end, before = time.monotonic() + seconds, ""
        while time.monotonic() < end:
            time.sleep(0.5)
            screen = self.screen(colours=False)
            if words in screen and screen == before:
                return
            before = screen
        raise SystemExit(f"{words!r} did not come:\n{before}")

    def screen(self, *, colours: bool = True) -> str:
        """Return what is on the screen."""
        shown = self._call("capture-pane", "-p", "-S", "-", *(["-e"] if colours else []))
        return "\n".join(line.rstrip() for line in shown.rstrip().split("\n"))

    def clear(self) -> None:
        """Begin an empty screen."""
        self.type("clear\n")
        time.sleep(1)
        self._call("clear-history")

    def close(self) -> None:
        """End the terminal."""
        self._call("kill-server")

    def _call(self, *words: str) -> str:
        done = subprocess.run(["tmux", "-S", self._socket, *words], cwd=self._folder, capture_output=True, text=True, check=True)
        return done.stdout


def write_files(folder: Path) -> None:
    """Write what the week needs: a lease, and an export in the shape that ChatGPT's has."""
    (folder / "lease.md").write_text("# Lease\n\nThe notice period is three months.\n\nThe rent is due on the third.\n")
    said = [("user", "In Kyoto I liked the Hotel Sakura best."), ("assistant", "Noted, it is close to the river.")]
    conversations = []
    for title, messages in (("Trip to Japan", said), ("我的猫", [("user", "我的猫叫小白。"), ("assistant", "好名字。")])):
        mapping = {"0": {"id": "0", "parent": None, "children": ["1"], "message": None}}
        hidden = {"author": {"role": "user"}, "content": {"content_type": "user_editable_context"}, "metadata": {}}
        mapping["1"] = {"id": "1", "parent": "0", "children": ["2"], "message": hidden}
        for number, (role, text) in enumerate(messages, start=2):
            content = {"content_type": "text", "parts": [text]}
            message = {"author": {"role": role}, "create_time": 1772359200.0 + number, "content": content, "metadata": {}}
            mapping[str(number)] = {"id": str(number), "parent": str(number - 1), "children": [], "message": message}
        id = f"67c2e4a0-0000-4000-8000-00000000000{len(conversations)}"
        end = {"current_node": str(len(messages) + 1), "mapping": mapping}
        conversations.append({"conversation_id": id, "title": title, "create_time": 1772359200.0, **end})
    with zipfile.ZipFile(folder / "chatgpt.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", json.dumps(conversations))


def picture(screen: str, columns: int = COLUMNS) -> str:
    """Return the SVG of a *screen*."""
    console = Console(record=True, width=columns, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(Text.from_ansi(screen))
    svg = console.export_svg(title="tellback", theme=MONOKAI)
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)  # the reader's own font, nothing is fetched
    return svg.replace("Fira Code", "ui-monospace, Menlo, Consolas")


def main() -> None:
    """Live through the week and write the pictures."""
    target = Path(__file__).with_name("tour")
    target.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        home, other = Path(temporary) / "mira", Path(temporary) / "laptop"
        for folder in (home, other):
            folder.mkdir()
        write_files(home)
        environment = {
            "HOME": str(home),
            "OTHER": str(other),
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "PS1": PROMPT,
            "TERM": "tmux-256color",
        }
        terminal = Tmux(home, environment)
        try:
            for scene in SCENES:
                terminal.clear()
                for keys, words in scene.steps:
                    terminal.type(keys)
                    terminal.until(words)
                    if words == "MB":
                        (home / "memory-backup.db").rename(other / "memory-backup.db")
                shown = terminal.screen()
                (target / f"{scene.name}.svg").write_text(picture(shown), encoding="utf-8")
                print(terminal.screen(colours=False), "\n" + "=" * COLUMNS)
        finally:
            terminal.close()


if __name__ == "__main__":
    main()
