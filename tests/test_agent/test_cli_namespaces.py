"""Each command in one namespace prints the same whether another namespace of the file is empty or full.

The commands are those of the tree, so that a new one cannot be left out. Two files are copies of one; in the second the
namespace that is meant where none is named holds the same ids, keys, sessions and documents, too. Ids that are drawn
and times are masked.
"""

from __future__ import annotations

import io
import re
import shutil
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from tellback.agent.assistant.cli.app import app, run_command_line
from tellback.memory import KnowledgeBase, LongTermMemory, Memory, Message, open_memory, run_sync
from tests.support.command_line import CommandLine

MINE, OTHER = "ana", ""
_DRAWN = re.compile(
    r"\b(?:[0-9a-hjkmnp-tv-z]{16}|[0-9a-hjkmnp-tv-z]{5})\b|\b\d\d:\d\d\b"
    r"|\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?"
)

COMMANDS = {
    "ask": ["ask", "Where is the key of the shed?"],
    "chat": ["chat", "--session", "monday"],
    "correct": ["correct", "m1", "The key of the shed is in the blue jar."],
    "documents": ["documents"],
    "documents list": ["documents", "list", "--json"],
    "eval": ["eval", "--questions", "5"],
    "export": ["export", "export.jsonl"],
    "forget": ["forget", "m2", "--yes"],
    "import": ["import", "elsewhere.jsonl"],
    "ingest": ["ingest", "notes"],
    "memories": ["memories"],
    "memories about": ["memories", "about", "m1", "shed key: place"],
    "memories disable": ["memories", "disable", "m1"],
    "memories enable": ["memories", "enable", "m3"],
    "memories eval": ["memories", "eval", "--questions", "5"],
    "memories end": ["memories", "end", "m1", "--at", "2026-01-01"],
    "memories expire": ["memories", "expire", "m1", "--at", "2030-01-01"],
    "memories history": ["memories", "history", "m3"],
    "memories importance": ["memories", "importance", "m1", "--set", "0.5"],
    "memories list": ["memories", "list", "--json"],
    "memories merge": ["memories", "merge", "m1", "m2", "--text", "Both keys are in the jar."],
    "memories operations": ["memories", "operations"],
    "memories conflicts": ["memories", "conflicts", "--json"],
    "memories given": ["memories", "given", "--json"],
    "memories demote": ["memories", "demote", "m1"],
    "memories people": ["memories", "people"],
    "memories people add": ["memories", "people", "add", "Lena", "my wife"],
    "memories people list": ["memories", "people", "list", "--json"],
    "memories people split": ["memories", "people", "split", "Lena", "my wife"],
    "memories pin": ["memories", "pin", "m1"],
    "memories settle": ["memories", "settle", "m1", "m2"],
    "memories show": ["memories", "show", "m1", "--json"],
    "memories profile": ["memories", "profile", "--json"],
    "memories stats": ["memories", "stats", "--json"],
    "memories tag": ["memories", "tag", "m1", "--tag", "keys"],
    "memories promote": ["memories", "promote", "m2"],
    "memories unpin": ["memories", "unpin", "m2"],
    "memories untag": ["memories", "untag", "m1", "--tag", "house"],
    "list": ["list"],
    "recall": ["recall", "Where is the key of the shed?", "--json", "--explain"],
    "remember": ["remember", "The bin is emptied on Friday.", "--json"],
    "search": ["search", "Where is the key of the shed?"],
    "sessions": ["sessions"],
    "sessions list": ["sessions", "list", "--json"],
    "sessions show": ["sessions", "show", "monday"],
    "show": ["show", "m1"],
    "undo": ["undo", "--yes"],
    "why-not": ["why-not", "Where is the key of the shed?", "m3"],
}
_USERS = ("list", "add", "token", "share", "quota", "remove")
OF_THE_FILE = {
    "init": "settings, not memories",
    "backup": "the owner's: the file as a whole",
    "restore": "the owner's: the file as a whole",
    **dict.fromkeys(("migrate", "memories migrate"), "the owner's: the memory as a whole"),
    **dict.fromkeys(
        ("index", "index build", "index drop", "index list"), "a server's, where all namespaces are listed"
    ),
    "config": "what is set",
    **{f"config {name}": "what is set" for name in ("list", "get", "set", "unset", "path", "models")},
    "config embedder": "the owner's: all memories are embedded anew",
    "config rights": "a role of the server, over all namespaces",
    **{f"config users{name}": "the owner's" for name in ("", *(f" {verb}" for verb in _USERS))},
    "doctor": "the owner's: what works here, and the file as a whole",
    "help": "the commands",
    "hook": "a client's: its namespace is that of the settings",
    "install": "what clients call",
    **dict.fromkeys(("hooks", "hooks pause", "hooks resume", "pause", "resume"), "the hooks of all clients"),
    "resident": "the processes of all memories",
    "resident status": "the processes of all memories",
    "resident stop": "the processes of all memories",
    "mcp": "one namespace for all clients; its tools have tests of their own",
    "serve": "one namespace for all callers; what they reach of others has a test of its own",
    "memories namespaces": "the owner's: what namespaces there are",
    "reembed": "vectors are the file's",
    "documents forget": "what was read below a path, which the copies do not share; its own test has two namespaces",
    "watch": "it goes on until it is interrupted; each reading is that of ingest",
}
"""Commands that are not about one namespace, each with the reason."""


async def filled(memory: LongTermMemory, namespace: str, notes: Path, *, here: str) -> None:
    """Store items of every kind in *namespace*; *here* is the folder of its keys."""
    exchange = [
        Message.user(f"The key of the cellar is in the {here}."),
        Message.assistant("I shall keep that in mind."),
    ]
    await memory.remember_turn("monday", exchange, namespace=namespace)
    items = [f"The key of the shed is in the {here}.", f"The key of the attic is in the {here}.", "The bin is green."]
    made = [Memory(text, id=f"m{place}", tags=("house",)) for place, text in enumerate(items, start=1)]
    await memory.remember_many([*made, Memory("The shed is red.", key="shed")], namespace=namespace)
    await memory.correct("m3", "The bin is black.", namespace=namespace)
    await memory.disable("m3", namespace=namespace)
    await memory.pin("m2", namespace=namespace)
    more = [
        "My wife is Lena.",
        f"The bicycle in the hall has a bell from the {here}. It was repaired by Ben in winter.",
        f"Ben plays the violin at the market. The {here} of the violin is lined with velvet.",
        f"A lantern hangs over the harbour. Its {here} is filled with oil by the ferryman.",
        f"The piano was tuned in spring. The tuner keeps his forks in a {here} of oak.",
        f"The kettle whistles in the kitchen. Tea and sugar stand beside the {here}.",
        f"The ladder leans on the orchard wall. Apples are carried down in a {here}.",
    ]
    await memory.remember_many(more, namespace=namespace)
    await KnowledgeBase(memory, namespace=namespace).ingest([notes])
    memory.given.record(namespace, {"m1": 0.5}, client="codex", session="codex:a", prompt=f"Which {here}?")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a folder whose memory has one namespace, and one whose memory has another too."""
    alone, beside = tmp_path_factory.mktemp("alone"), tmp_path_factory.mktemp("beside")
    (alone / "notes").mkdir()
    (alone / "notes" / "house.md").write_text("# House\n\nThe shed stands behind the house. It has one key.\n")
    memory = open_memory(alone / "m.db")
    run_sync(filled(memory, MINE, alone / "notes", here="jar"))
    run_sync(memory.close())
    shutil.copytree(alone, beside, dirs_exist_ok=True)
    memory = open_memory(beside / "m.db")
    run_sync(filled(memory, OTHER, beside / "notes", here="drawer"))
    run_sync(memory.export(alone / "elsewhere.jsonl", namespace=OTHER))
    run_sync(memory.close())
    shutil.copy(alone / "elsewhere.jsonl", beside)
    return alone, beside


def names_of(command: object, before: str = "") -> set[str]:
    """Return the names of all commands below *command*."""
    found: set[str] = set()
    for name, item in getattr(command, "commands", {}).items():
        found |= {f"{before}{name}"} | names_of(item, f"{before}{name} ")
    return found


def test_every_command_is_in_the_namespace_table_or_concerns_the_whole_file() -> None:
    assert names_of(get_command(app)) == {*COMMANDS, *OF_THE_FILE}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_the_contents_of_another_namespace_change_no_output_line(
    name: str, files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    printed = []
    for folder in files:
        here = tmp_path / "here"
        shutil.copytree(folder, here)
        monkeypatch.chdir(here)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Where is the key of the cellar?\n")))
        code = run_command_line(["--memory", str(here / "m.db"), "--namespace", MINE, "--offline", *COMMANDS[name]])
        shown = capsys.readouterr()
        left = [path.read_text() for path in here.glob("export.jsonl")]
        printed.append((code, *(_DRAWN.sub("…", text) for text in (shown.out, shown.err, *left))))
        shutil.rmtree(here)
    assert printed[0][0] == 0, printed[0]
    assert printed[0] == printed[1]


def test_the_owner_of_a_file_can_list_its_namespaces(tellback: CommandLine) -> None:
    for namespace, text in (("", "A fact."), ("ana", "A fact."), ("ana", "Another."), ("b/ c", "A fact.")):
        tellback("--namespace", namespace, "remember", text)
    listed = tellback.json("memories", "namespaces")["namespaces"]
    assert [(item["namespace"], item["entries"]) for item in listed] == [("", 1), ("ana", 2), ("b/ c", 1)]
    done = tellback("memories", "namespaces", "--namespace", "nobody")
    assert [line.split()[0] for line in done.out.splitlines()] == ["namespace", "(default)", "ana", "b/"]
    assert done.err == "nothing is remembered in the namespace in use, nobody\n"
