"""SIGKILL at random moments: what was acknowledged is there, what was in flight is there whole or not at all."""

from __future__ import annotations

import random
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.support.spaces_model import SpacesModel
from tests.test_faults.agreement import disagreements, rows
from tests.test_faults.children import Child, Say
from tests.test_faults.planted import STORES
from tests.test_faults.workload import SPACES, Workload

_STEPS = 60
"""Steps after which a child ends by itself."""
_OPENING = 10
"""Steps that opening the store and making the first one take."""


def _pace(path: Path, workload: Workload) -> float:
    """Seconds that a step takes here and now, opening the store included."""

    def work(_: Say) -> None:
        with closing(STORES["sound"](path, space=SPACES[0])) as opened:
            for step in range(_STEPS):
                workload.apply(step, opened)

    began = time.monotonic()
    Child(work).wait()
    return (time.monotonic() - began) / _STEPS


def kill_rounds(folder: str, seed: int, rounds: int, schedule: str, store: str = "sound") -> dict[str, Any]:
    """Kill a child while it writes, compare the file with the model, and repeat with the same file."""
    rng, path = random.Random(seed), Path(folder) / "memory.db"
    make, workload = STORES[store], Workload(seed, schedule)
    pace = _pace(Path(folder) / "pace.db", workload)
    model, number, acknowledged, inside, broken = SpacesModel(space=SPACES[0]), 0, 0, 0, []
    for turn in range(rounds):
        first = number

        def work(say: Say, first: int = first) -> None:
            opened = make(path, space=SPACES[0] if first == 0 else None)
            for step in range(first, first + _STEPS):
                workload.apply(step, opened)
                say(str(step))

        steps = int(rng.choice([1, 10, 40]) * rng.random())
        ended = Child(work).kill_after(rng.random() * pace * (1 if steps else _OPENING), lines=steps)
        if ended.code > 0:
            broken.append(f"round {turn}: {ended.said[-1]}")
            break
        for step in range(first, first + len(ended.said)):
            workload.apply(step, model)
        number = first + len(ended.said)
        acknowledged += len(ended.said)
        if not path.exists():
            if number:
                broken.append(f"round {turn}: the file is gone")
                break
            continue
        # Opened by the sound store: what is asked is what the file holds.
        with closing(STORES["sound"](path, space=SPACES[0] if number == 0 else None)) as again:
            held = rows(again)
            if held != rows(model):
                workload.apply(number, model)
                number += 1
                inside += 1
            if held != rows(model):
                kind = workload.kind(number - 1)
                broken.append(f"round {turn}: neither the state after step {number - 1} ({kind}) nor the one before")
                break
            broken += [
                f"round {turn}, step {number}: {disagreement}" for disagreement in disagreements(again, model, turn)
            ]
    return {"seed": seed, "rounds": turn + 1, "acknowledged": acknowledged, "in flight": inside, "broken": broken}
