"""A chat of several runs: a statement is recalled later, corrected, and forgotten for good."""

import asyncio
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PRELUDE = """
    import asyncio, json, sys
    from tellback.memory.long_term import LongTermMemory
    from tellback.memory.messages import Message, TextBlock
    from tellback.memory.open import open_memory
    memory = open_memory(sys.argv[1])

    def tell(session, *texts):
        makers = [Message.user, Message.assistant] * len(texts)
        turns = [make(text) for make, text in zip(makers, texts)]
        return [report.id for report in asyncio.run(memory.remember_turn(session, turns))]

    def ask(question):
        return [hit.memory.text for hit in asyncio.run(memory.recall(question, 5))]
"""


def program(path, code):
    """Run *code* in a process of its own; return the JSON that it prints."""
    source = textwrap.dedent(PRELUDE) + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", source, str(path)], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def traces(folder, word):
    """Return the files of *folder* in whose bytes *word* stands."""
    forms = [word.encode(), word.encode("utf-16-le"), word.encode("utf-16-be")]
    return [path.name for path in folder.iterdir() if any(form in path.read_bytes() for form in forms)]


@pytest.mark.slow
def test_a_memory_is_stored_recalled_corrected_and_forgotten_over_four_runs(tmp_path):
    path = tmp_path / "m.db"
    given = program(
        path,
        """
        ids = tell("monday", "My locker at the gym has the number Zanzibar-4417.", "I will remember that.",
                   "Also, my sister Clara plays the cello.", "How nice.")
        print(ids[0])
        """,
    )
    program(
        path,
        f"""
        assert ask("What is the number of my locker?")[0].endswith("Zanzibar-4417."), ask("locker number")
        answer = TextBlock(text="You told me: the number Zanzibar-4417.")
        quoting = Message(role="assistant", blocks=(answer,), metadata={{"quotes": ["{given}"]}})
        turn = [Message.user("What is the number of my locker?"), quoting]
        asyncio.run(memory.remember_turn("tuesday", turn))
        asyncio.run(memory.correct("{given}", "My locker at the gym has the number Quebec-5528."))
        """,
    )
    program(
        path,
        f"""
        assert ask("What is the number of my gym locker?")[0].endswith("Quebec-5528."), ask("gym locker")
        ends = [one.text.split()[-1] for one in asyncio.run(memory.history("{given}"))]
        assert ends == ["Quebec-5528.", "Zanzibar-4417."], ends
        plan = asyncio.run(memory.forget(["{given}"], dry_run=True))
        assert (plan.versions, plan.messages) == (1, 2), plan
        receipt = asyncio.run(memory.forget(["{given}"]))
        assert not receipt.pending
        asyncio.run(memory.close())
        """,
    )
    assert traces(tmp_path, "Zanzibar") == traces(tmp_path, "Quebec") == []
    assert traces(tmp_path, "Clara") == ["m.db"]
    program(
        path,
        """
        assert asyncio.run(memory.complete()) == 0
        assert not any("locker at the gym" in text for text in ask("What is the number of my locker?"))
        assert "cello" in ask("What does Clara play?")[0]
        assert memory.store.verify() == []
        tell("friday", "My locker at the gym has the number Zanzibar-4417.")
        assert any(text.endswith("Zanzibar-4417.") for text in ask("What is the number of my locker?"))
        """,
    )


@pytest.mark.slow
def test_two_processes_share_one_file(tmp_path):
    path = tmp_path / "m.db"
    program(path, 'tell("a", "The first process was here.")')

    async def both():
        codes = [
            f'[tell("s{i}", f"process {i} says sentence {{n}}") for n in range(20)]; '
            f"assert asyncio.run(memory.count()) >= 21"
            for i in range(2)
        ]
        await asyncio.gather(*(asyncio.to_thread(program, path, code) for code in codes))

    asyncio.run(both())
    assert program(path, "print(asyncio.run(memory.count()), memory.store.verify())") == "41 []"
