"""The command line on a terminal: it asks, shows progress, edits lines, and can be interrupted."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tellback.agent.assistant.cli.app import run_command_line
from tellback.agent.testing import OpenAIServer, RawReply, Reply, call

pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals")

ROOT = Path(__file__).resolve().parents[2]
TELLBACK = [sys.executable, "-c", "from tellback.agent.assistant.cli import main; main()"]
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]")

FORWARD = re.compile(r"(\x08?)\x1b\[(\d*)C")
"""The cursor moves on: an editor leaves out spaces at the end of what it draws."""


class Terminal:
    """A process whose standard streams are a terminal; what it prints is collected in ``shown``.

    Its user is set up, by a name, unless ``TELLBACK_NAME`` is "".
    """

    def __init__(self, *arguments: object, **more: str) -> None:
        self._ours, theirs = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30", "TELLBACK_NAME": "Ana", **more}
        self.process = subprocess.Popen(
            [*TELLBACK, *map(str, arguments)],
            cwd=ROOT,
            env=environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: _controlled_by(theirs),
        )
        os.close(theirs)
        self.shown = ""

    def until(self, words: str, *, timeout: float = 300) -> str:
        """Read until *words* are on the screen."""
        end = time.monotonic() + timeout
        while words not in self.shown:
            assert self._read(end), f"{words!r} did not come; the screen shows:\n{self.shown}"
        return self.shown

    def type(self, keys: str) -> None:
        """Press *keys*, a line feed being Enter; what was shown before is put away."""
        self.shown = ""
        os.write(self._ours, keys.replace("\n", "\r").encode())

    def interrupt(self, words: str) -> None:
        """Press Ctrl-C until *words* come: one pressed just before a prompt waits is noticed with the next key."""
        self.press("\x03", words)

    def press(self, key: str, words: str | None, *, patience: float = 10) -> None:
        """Press *key* until *words* come, or until it ends where *words* is None, each time after *patience* seconds.

        One that comes too early may be lost; *patience* is enough for what it began to end on a busy machine.
        """
        self.shown = ""
        for _ in range(15):
            self._settle()
            os.write(self._ours, key.encode())
            end = time.monotonic() + patience
            ended = False
            while not ended and (words is None or words not in self.shown) and self._waits(end):
                ended = not self._read(end)
            if ended if words is None else words in self.shown:
                return
            assert not ended, f"it ended without {words!r}; the screen shows:\n{self.shown}"
        raise AssertionError(f"{words!r} did not come; the screen shows:\n{self.shown}")

    def ended(self, *, timeout: float = 300) -> int:
        """Read to the end, and return the exit code."""
        end = time.monotonic() + timeout
        while self._read(end):
            pass
        os.close(self._ours)
        return self.process.wait(timeout)

    def _settle(self) -> None:
        """Wait until it sleeps, where the system tells: then it waits for a key or an answer, not for a processor."""
        state = Path(f"/proc/{self.process.pid}/stat")
        asleep, end = 0, time.monotonic() + 60
        while state.exists() and asleep < 3 and time.monotonic() < end:
            asleep = asleep + 1 if state.read_text().rpartition(")")[2].split()[0] == "S" else 0
            time.sleep(0.02)

    def _read(self, end: float) -> bool:
        if not self._waits(end):
            self.process.kill()
            raise AssertionError(f"nothing more came; the screen shows:\n{self.shown}")
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # Linux says so when the other side has closed
            return False
        moved = FORWARD.sub(lambda match: " " * (int(match[2] or 1) - len(match[1])), data.decode(errors="replace"))
        self.shown += ESCAPE.sub("", moved).replace("\r", "")
        return bool(data)

    def _waits(self, end: float) -> bool:
        """Return whether something to read comes before *end*."""
        return bool(select.select([self._ours], [], [], max(end - time.monotonic(), 0))[0])


class Stalled(Sequence[bytes]):
    """The bytes of an answer that begins and then hangs until it is released."""

    def __init__(self, released: threading.Event) -> None:
        self._released = released

    def __iter__(self):
        chunk = {"choices": [{"index": 0, "delta": {"content": "It is very "}, "finish_reason": None}]}
        yield f"data: {json.dumps(chunk)}\n\n".encode()
        self._released.wait(600)

    def __len__(self) -> int:
        return 1

    def __getitem__(self, place):
        raise IndexError(place)


class Late(Stalled):
    """The bytes of an answer that begins once it is released."""

    def __iter__(self):
        self._released.wait(600)
        chunk = {"choices": [{"index": 0, "delta": {"content": "It is very late."}, "finish_reason": "stop"}]}
        yield f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()


def _controlled_by(terminal: int) -> None:
    """Make *terminal* the controlling one of this new session, so that Ctrl-C reaches it."""
    import fcntl
    import termios

    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


@pytest.fixture
def path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "m.db"
    assert (
        run_command_line(["--memory", str(path), "remember", "The plumber comes on Friday.", "--key", "plumber"]) == 0
    )
    capsys.readouterr()
    return path


def known(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, int]:
    """Return the id of the first memory and how many there are."""
    run_command_line(["--memory", str(path), "memories", "--json"])
    answer = json.loads(capsys.readouterr().out)
    return (answer["memories"] or [{"id": ""}])[0]["id"], answer["total"]


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "code", "left"), [("n\n", 1, 1), ("yes\n", 0, 0), ("\x04", 1, 1)])
def test_forget_on_a_terminal_lists_the_memories_and_asks_for_confirmation(
    path: Path, capsys: pytest.CaptureFixture[str], answer: str, code: int, left: int
) -> None:
    id, _ = known(path, capsys)
    terminal = Terminal("--memory", path, "forget", id)
    assert "The plumber comes on Friday." in terminal.until("1 memory will be gone for good. Go on? [y/N]")
    terminal.type(answer)
    assert terminal.ended() == code
    assert known(path, capsys)[1] == left
    assert ("forgot 1 memory" if code == 0 else "nothing was forgotten") in terminal.shown


@pytest.mark.slow
def test_an_interrupt_at_the_forget_confirmation_forgets_nothing(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal("--memory", path, "forget", known(path, capsys)[0])
    terminal.until("[y/N]")
    terminal.interrupt("tellback: interrupted\n")
    assert terminal.ended() == 130
    assert known(path, capsys)[1] == 1


@pytest.mark.slow
def test_chat_on_a_terminal_answers_and_ends_with_ctrl_d(path: Path) -> None:
    terminal = Terminal("--memory", path, "chat")
    assert "no model: statements are kept" in " ".join(terminal.until("> ").split())
    terminal.type("My bicycle lock has the code 4711.\n")
    assert re.search("Noted: “My bicycle lock has the code 4711.”\nkept \\w{5}\n", terminal.until("\n> "))
    terminal.type("When does the plumber come?\n")
    assert "“The plumber comes on Friday.” [1]\n" in terminal.until("\n> ")
    terminal.type("\x04")
    assert terminal.ended() == 0


@pytest.mark.slow
def test_lines_typed_while_the_chat_starts_are_turns_of_their_own(path: Path) -> None:
    terminal = Terminal("--memory", path, "chat")
    terminal.type("My name is Clara.\nMy husband is called Marek.\nWhat is the name of my husb")
    terminal.until("Noted: “My husband is called Marek.”")
    assert "Noted: “My name is Clara.”" in terminal.shown
    terminal.type("and?\n")
    terminal.until("“My husband is called Marek.” [1]")
    terminal.press("\x04", None)
    assert terminal.ended() == 0


@pytest.mark.slow
def test_a_pasted_block_is_one_prompt_kept_in_the_history_and_two_interrupts_quit_chat(path: Path) -> None:
    terminal = Terminal("--memory", path, "chat")
    terminal.until("> ")
    terminal.type("\x1b[200~to buy:\n- milk\n- 猫粮\x1b[201~")
    terminal.until("猫粮")
    terminal.type("\n")
    assert "Noted: “to buy: - milk - 猫粮”" in terminal.until("\n> ")
    terminal.type("\x04")
    assert terminal.ended() == 0
    terminal = Terminal("--memory", path, "chat", "-c", NO_COLOR="1")
    terminal.until("> ")
    terminal.press("\x1b[A", "猫粮", patience=1)  # earlier prompts are read while the prompt waits
    terminal.type("\x03")  # it empties the line
    terminal.press("\x03", "Ctrl-C once more, or Ctrl-D, leaves\n> ")
    terminal.press("\x03", None)
    assert terminal.ended() == 0


@pytest.mark.slow
def test_an_interrupt_in_an_answer_stops_the_answer_and_keeps_nothing_of_it(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    released = threading.Event()
    with OpenAIServer(RawReply(Stalled(released)), Reply("Here I am.")) as server:
        more = {"OPENAI_BASE_URL": server.url, "TELLBACK_MODEL": "any"}
        terminal = Terminal("--memory", path, "chat", **more)
        terminal.until("> ")
        terminal.type("How late is it?\n")
        terminal.until("It is very")
        terminal.interrupt("stopped; nothing of this turn is kept (/retry sends it again)\n> ")
        terminal.type("Are you there?\n")
        terminal.until("Here I am.\n")
        terminal.until("\n> ")
        terminal.type("/quit\n")
        assert terminal.ended() == 0
        released.set()
    run_command_line(["--memory", str(path), "memories"])
    assert "How late" not in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "left"), [("y\n", 0), ("\n", 1), ("\x03", 1)])
def test_a_forget_call_of_the_model_needs_approval_on_the_terminal(
    path: Path, capsys: pytest.CaptureFixture[str], answer: str, left: int
) -> None:
    id, _ = known(path, capsys)
    with OpenAIServer(Reply(calls=(call("forget_memory", ids=[id]),)), Reply("Very well.")) as server:
        terminal = Terminal("--memory", path, "chat", OPENAI_BASE_URL=server.url, TELLBACK_MODEL="m")
        terminal.until("> ")
        terminal.type("Forget the plumber.\n")
        shown = terminal.until("Allow it? [y/N]")
        assert "The model wants to call forget_memory" in shown
        assert "The plumber comes on Friday." in shown
        if answer == "\x03":
            terminal.interrupt("\n> ")
        else:
            terminal.type(answer)
        answered = terminal.until("\n> ")
        assert "Very well." in answered or (
            answer == "\x03" and "stopped" in answered
        )  # too early to be an answer: it stops all
        terminal.type("/quit\n")
        assert terminal.ended() == 0
    run_command_line(["--memory", str(path), "memories", "--json"])
    texts = [entry["text"] for entry in json.loads(capsys.readouterr().out)["memories"]]
    assert texts.count("The plumber comes on Friday.") == left


@pytest.mark.slow
def test_chat_shows_waiting_until_the_first_word_and_retries_a_failed_turn_on_enter(path: Path) -> None:
    released = threading.Event()
    refused = RawReply([b'{"error": {"message": "no such key"}}'], status=401, content_type="application/json")
    with OpenAIServer(RawReply(Late(released)), refused, Reply("Now it is noon.")) as server:
        terminal = Terminal("--memory", path, "chat", OPENAI_BASE_URL=server.url, TELLBACK_MODEL="m")
        terminal.until("> ")
        terminal.type("How late is it?\n")
        terminal.until("thinking…")
        released.set()
        terminal.until("It is very late.\n")
        terminal.until("\n> ")
        terminal.type("How late is it now?\n")
        terminal.until("Enter alone, or /retry, tries it again\n> ")
        terminal.type("\n")
        terminal.until("Now it is noon.\n")
        terminal.until("\n> ")
        terminal.type("/quit\n")
        assert terminal.ended() == 4
    assert server.requests[-1].body["messages"][-1]["content"].endswith("How late is it now?")


@pytest.mark.slow
def test_forget_by_query_lets_single_memories_be_chosen(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_command_line(["--memory", str(path), "remember", "The plumber drives a blue van."])
    terminal = Terminal("--memory", path, "forget", "--query", "plumber")
    terminal.until("Enter for none:")
    blue = next(line.split()[0] for line in terminal.shown.splitlines() if line.endswith("blue van."))
    terminal.type("7\n")
    terminal.until("Enter for none:")
    terminal.type(f"all -{blue}\n")
    assert "blue van" not in terminal.until("1 memory will be gone for good. Go on? [y/N]")
    terminal.type("y\n")
    assert terminal.ended() == 0
    run_command_line(["--memory", str(path), "memories", "--json"])
    (left,) = json.loads(capsys.readouterr().out.splitlines()[-1])["memories"]
    assert left["text"] == "The plumber drives a blue van."


@pytest.mark.slow
def test_ingest_on_a_terminal_shows_a_progress_bar_and_removes_it_at_the_end(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(130):
        (folder / f"n{number:03}.md").write_text(f"# Note {number}\n\nIt rained {number} times.\n")
    terminal = Terminal("--memory", path, "ingest", "--quiet", folder)
    assert terminal.ended() == 0
    assert "ingesting" not in terminal.shown
    terminal = Terminal("--memory", path, "ingest", "--again", folder)
    assert terminal.ended() == 0
    assert "ingesting" in terminal.shown
    assert "of 130 files" in terminal.shown
    assert terminal.shown.splitlines()[-1].startswith(("130 ", "nothing changed: 130 "))


@pytest.mark.slow
def test_lines_on_a_terminal_are_cut_to_its_width(path: Path) -> None:
    run_command_line(["--memory", str(path), "remember", "word " * 100])
    terminal = Terminal("--memory", path, "memories")
    assert terminal.ended() == 0
    assert max(map(len, terminal.shown.splitlines())) <= 100
    assert "…" in terminal.shown


def chatgpt_export(path: Path) -> None:
    """Write an export of one conversation, in the shape that ChatGPT's has."""
    items = [("user", "In Kyoto I liked the Hotel Sakura best."), ("assistant", "It is close to the river.")]
    mapping: dict[str, object] = {}
    for number, (role, text) in enumerate(items):
        content = {"content_type": "text", "parts": [text]}
        message = {"author": {"role": role}, "create_time": 1772359200.0, "content": content, "metadata": {}}
        mapping[str(number)] = {"id": str(number), "parent": str(number - 1), "message": message}
    conversation = {"conversation_id": "c1", "title": "Trip to Japan", "current_node": "1", "mapping": mapping}
    path.write_text(json.dumps([conversation]))


@pytest.mark.slow
def test_a_memory_used_for_a_week_is_moved_to_another_machine(tmp_path: Path) -> None:
    (tmp_path / "lease.md").write_text("# Lease\n\nThe notice period is three months.\n")
    chatgpt_export(tmp_path / "conversations.json")
    home = {name: str(tmp_path / "home" / name) for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
    home |= {name: str(tmp_path / "home" / name) for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR")}

    def run(*words: object) -> str:
        terminal = Terminal(*words, **home)
        assert terminal.ended() == 0, terminal.shown
        return terminal.shown

    def talk(*turns: tuple[str, str], options: Sequence[str] = ()) -> None:
        terminal = Terminal("chat", *options, **home)
        terminal.until("> ")
        for typed, answer in turns:
            terminal.type(f"{typed}\n")
            terminal.until(answer)
            if not answer.endswith("] "):
                terminal.until("\n> ")
        terminal.type("/quit\n")
        assert terminal.ended() == 0

    run("init", "--name", "Mira", "--zone", "Europe/Lisbon", "--yes")
    run("remember", "The plumber comes on Friday.")
    talk(
        ("My sister Ana lives in Porto.", "kept"),
        ("\x1b[200~to buy:\n- milk\n- 猫粮\x1b[201~", "Noted: “to buy: - milk - 猫粮”"),
        ("Where does my sister live?", "“My sister Ana lives in Porto.” [1]"),
        ("no, my sister Ana lives in Braga", "[y/N/e to edit] "),
        ("y", "corrected"),
        (f"/attach {tmp_path / 'lease.md'}", "lease.md"),
        ("How long is the notice period?", "three months"),
    )
    talk(
        ("Where does my sister live?", "“My sister Ana lives in Braga.” [1]"),
        ("forget that the plumber comes on Friday", "Go on? [y/N] "),
        ("y", "forgot 1 memory"),
        options=["-c"],
    )
    assert "kept 2 messages of 1 conversation" in run("import", tmp_path / "conversations.json")
    assert "known already: 2" in run("import", tmp_path / "conversations.json")
    assert "Trip to Japan" in run("sessions")
    talk(("Which hotel did I like in Kyoto?", "Hotel Sakura"), options=["-c"])
    run("backup", tmp_path / "moved.db")
    home |= {name: value.replace("home", "laptop") for name, value in home.items()}
    run("restore", tmp_path / "moved.db")
    assert "“My sister Ana lives in Braga.” [1]" in run("ask", "Where does my sister live?")
    assert "Hotel Sakura" in run("ask", "Which hotel did I like in Kyoto?")
    assert "plumber" not in run("memories", "list", "--full")


@pytest.mark.slow
def test_the_first_chat_sets_up_at_sixty_columns_and_never_shows_a_key(tmp_path: Path) -> None:
    with OpenAIServer(Reply("Red, Jonas."), models=("first", "second")) as server:
        asked = {"TELLBACK_NAME": "", "COLUMNS": "60", "OLLAMA_HOST": "127.0.0.1:9", "TERM": "dumb"}
        asked["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"
        terminal = Terminal("--memory", tmp_path / "m.db", "chat", **asked)
        answers = {
            "takes a minute. [y/N]": "y\n",
            "Number [": "",
            "http://192.168.1.4:8000/v1: ": f"{server.url}\n",
            "Enter: none): ": "sk-hush-1234\n",
            "Number or name [1]: ": "second\n",
            "Your name": "Jonas\n",
            "Language": "\n",
            "time zone": "\n",
            "Shall it? [no]: ": "\n",
            "> ": "What colour is my bike?\n",
        }
        screen = ""
        for question, answer in answers.items():
            screen += terminal.until(question)
            if question == "Number [":  # other servers may run on this machine
                answer = re.findall(r"(\d+)  another service", terminal.shown)[-1] + "\n"
            terminal.type(answer)
        screen += terminal.until("Red, Jonas.")
        terminal.until("\n> ")
        terminal.type("exit\n")
        assert terminal.ended() == 0
        assert server.requests[-1].headers["authorization"] == "Bearer sk-hush-1234"
    assert "hush" not in screen
    lines = ESCAPE.sub("", screen).replace("\r", "").splitlines()
    assert [line for line in lines if len(line) > 60 and "/" not in line] == []
    (keys,) = Path.home().glob(".config/tellback/*.keys.toml")
    assert keys.stat().st_mode & 0o777 == 0o600
