"""Picture of a terminal for the README, from a real run: ``python docs/terminal_picture.py`` writes docs/terminal.svg.

Runs the commands below with a memory of their own and shows what they print.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

COLUMNS = 92
STORY = (
    ("in June, told on the command line", 'tellback remember "My sister Ana lives in Porto and hates walnuts." --at 2026-06-03'),
    ("months later, said in a conversation", 'echo "Ana has moved to Ghent." | tellback chat'),
    ("asked in other words", 'tellback ask "In which town is my sister these days?"'),
    ("why is something not in an answer?", 'tellback why-not "What does Ana not like to eat?" $ID -k 1'),
    ("forgotten, and proved", "tellback forget $ID --yes --receipt receipt.json"),
    ("", "tellback forget --verify receipt.json"),
)


def run(command: str, folder: Path) -> str:
    """Return what a command prints in *folder*, errors last."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("TELLBACK_", "XDG_"))},
        "HOME": str(folder),
        "COLUMNS": str(COLUMNS),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return (done.stdout + done.stderr).rstrip()


def main() -> None:
    """Run the story and write the picture beside this file."""
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"))  # noqa: SIM115
    with tempfile.TemporaryDirectory() as temporary:
        folder, id = Path(temporary), ""
        for remark, command in STORY:
            if "$ID" in command and not id:
                find = "tellback recall Ghent -k 1 --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[\"hits\"][0][\"id\"])'"
                id = run(find, folder)
            if remark:
                console.print(Text(f"# {remark}", style="dim"))
            console.print(Text("$ ", style="bold green") + Text(command.replace("$ID", id[-5:]), style="bold"))
            console.print(Text(run(command.replace("$ID", id), folder)))
            console.print()
    picture = console.export_svg(title="tellback", theme=MONOKAI)
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)  # the reader's own font, nothing is fetched
    Path(__file__).with_name("terminal.svg").write_text(picture.replace("Fira Code", "ui-monospace, Menlo, Consolas"))


if __name__ == "__main__":
    main()
