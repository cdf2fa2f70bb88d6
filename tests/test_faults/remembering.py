"""SIGKILL while a memory is used: remembering, turns, corrections, undo, forgetting, embedding anew.

What was acknowledged is there, what was under way is there whole or not at all, and no byte of what was forgotten is.
"""

from __future__ import annotations

import random
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.test_faults.children import Child, Say
from tests.test_faults.living import LIVES, Plain, step

_STEPS = 40
_OPENING = 10
"""Steps that opening the memory and making the first one take."""


def _pace(path: Path, seed: int) -> float:
    """Seconds that a step takes here and now."""

    def work(_: Say) -> None:
        with closing(LIVES["sound"](path)) as life:
            for number in range(_STEPS):
                step(number, life, seed)

    began = time.monotonic()
    Child(work).wait()
    return (time.monotonic() - began) / _STEPS


def life_rounds(folder: str, seed: int, rounds: int, life: str = "sound") -> dict[str, Any]:
    """Kill a child that uses a memory, compare the file with the model, and repeat with the same file."""
    rng, path = random.Random(seed), Path(folder) / "memory.db"
    pace = _pace(Path(folder) / "pace.db", seed)
    plain, number, acknowledged, inside, broken = Plain(), 0, 0, 0, []
    for turn in range(rounds):
        first = number

        def work(say: Say, first: int = first) -> None:
            opened = LIVES[life](path)
            for position in range(first, first + _STEPS):
                step(position, opened, seed)
                say(str(position))

        steps = int(rng.choice([2, 8, 20]) * rng.random())
        ended = Child(work).kill_after(rng.random() * pace * (1 if steps else _OPENING), lines=steps)
        if ended.code > 0:
            broken.append(f"round {turn}: {ended.said[-1]}")
            break
        for position in range(first, first + len(ended.said)):
            step(position, plain, seed)
        number = first + len(ended.said)
        acknowledged += len(ended.said)
        if not path.exists():
            if number:
                broken.append(f"round {turn}: the file is gone")
                break
            continue
        with closing(LIVES["sound"](path)) as again:
            held = again.state()
            if held != plain.state():
                step(number, plain, seed)
                number += 1
                inside += 1
            if held != plain.state():
                broken.append(f"round {turn}: neither the state after step {number - 1} nor the one before")
                break
            broken += [f"round {turn}, step {number}: {item}" for item in again.wrong()]
        present = b"".join(file.read_bytes() for file in Path(folder).glob("memory.db*"))
        broken += [f"round {turn}: bytes of {text!r}" for text in sorted(plain.gone) if text.encode() in present]
        if broken:
            break
    return {"seed": seed, "rounds": turn + 1, "acknowledged": acknowledged, "in flight": inside, "broken": broken}
