"""Erased memories are in no byte of any file: its words, their tails, its context, its metadata, its vectors.

The file is looked at while it is open, after it was closed, and after its process was killed; or a reader is in the
way first, and then it is pending until that one has left.
"""

from __future__ import annotations

import random
import string
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from tellback.vectorstore import Entry
from tests.test_faults.children import Child, Say
from tests.test_faults.planted import ERASURE_PLANTS, STORES
from tests.test_faults.workload import NAMESPACES, SPACES, Workload

WAYS = ("open", "closed", "killed", "reader")


def forget(folder: str, seed: int, rounds: int, plant: str = "") -> dict[str, Any]:
    """Write secrets among other rows, overwrite some, erase them, and look for them in every file."""
    rng, path, workload = random.Random(seed), Path(folder) / "memory.db", Workload(seed)
    pending, broken, searched = 0, [], 0
    with closing(STORES["sound"](path, space=SPACES[0])) as made:
        for number in range(4):  # with a second space half filled
            workload.apply(number, made)
    for turn in range(rounds):
        way, secrets = WAYS[turn % len(WAYS)], [_Secret(rng, number) for number in range(3)]

        def work(say: Say, way: str = way, secrets: list[_Secret] = secrets) -> None:
            ERASURE_PLANTS[plant]()
            _forget(path, way, secrets, say)

        ended = Child(work).wait()
        values = dict(line.split(" ", 1) for line in ended.said)
        what = f"round {turn} ({way})"
        if ended.code:
            broken.append(f"{what}: {ended.said[-1:]}")
            break
        if int(values["before"]) < 3:
            broken.append(f"{what}: the secrets were not found before they were erased, so this shows nothing")
        broken += [f"{what}: {trace}" for trace in ([] if values["left"] == "nothing" else [values["left"]])]
        searched += int(values["before"])
        pending += values.get("pending") == "True"
        if way == "reader" and values["pending"] != "True":
            broken.append(f"{what}: a reader was in the way, and it was not said")
        if way != "open" and (traces := _traces(path.parent, secrets)):
            broken.append(f"{what}: afterwards {traces[:3]}")
    return {"seed": seed, "rounds": rounds, "traces before": searched, "pending": pending, "broken": broken[:20]}


class _Secret:
    """An entry of words and vectors that occur nowhere else."""

    def __init__(self, rng: random.Random, number: int) -> None:
        self.id = f"secret{number}"
        self.words = ["".join(rng.choices(string.ascii_lowercase, k=14)) for _ in range(4)]
        text, context, title, earlier = self.words
        self.text = f"{text} and {text}. " * rng.choice([1, 3, 500])
        self.context, self.metadata, self.earlier = context, {"title": title}, earlier * rng.choice([1, 400])
        self.vector = [rng.gauss(0, 1) for _ in range(SPACES[0].dimension)]
        self.next_vector = [rng.gauss(0, 1) for _ in range(SPACES[1].dimension)]

    def pieces(self) -> list[bytes]:
        """Return the bytes that must not remain."""
        found = [word[start:] for word in self.words for start in (0, 1, 4, 7)]
        encoded = [piece.encode() for piece in found] + [word.encode("utf-16-le") for word in self.words]
        vectors = [np.array(vector, dtype="<f4").tobytes() for vector in (self.vector, self.next_vector)]
        return encoded + [
            vector[position : position + 8] for vector in vectors for position in range(0, len(vector) - 8, 8)
        ]


def _forget(path: Path, way: str, secrets: list[_Secret], say: Say) -> None:
    store = STORES["sound"](path)
    namespace = NAMESPACES[len(way) % 2]
    store.upsert([Entry(secret.id, text=secret.earlier) for secret in secrets], namespace=namespace)
    entries = [Entry(secret.id, secret.vector, secret.text, secret.context, secret.metadata) for secret in secrets]
    store.upsert(entries, namespace=namespace)
    filling = store.filling()
    assert filling is not None
    store.fill_space(filling.space, {secret.id: secret.next_vector for secret in secrets}, namespace=namespace)
    store.search_text(secrets[0].words[0], namespace=namespace)
    say(f"before {len(_traces(path.parent, secrets))}")
    if way == "reader":
        with closing(STORES["sound"](path)) as reader, reader.view([""]) as view:
            view.search_text("zorb")
            store.erase([secret.id for secret in secrets], namespace=namespace)
            say(f"pending {store.pending_erasure()}")
        store.upsert([Entry("later", text="an ordinary write")], namespace=namespace)
    else:
        store.erase([secret.id for secret in secrets], namespace=namespace)
    if store.pending_erasure():
        say("left pending, with nobody in the way")
        return
    if way == "closed":
        store.close()
    traces = _traces(path.parent, secrets)
    say(f"left {traces[:3] if traces else 'nothing'}")
    # "killed": the child ends here, without closing.


def _traces(folder: Path, secrets: list[_Secret]) -> list[str]:
    """Name the files that hold a piece of a secret. Read by a process that is about to end, or has nothing open."""
    found = []
    for file in folder.iterdir():
        content = file.read_bytes() if file.is_file() else b""
        found += [f"{file.name}: {piece!r}" for secret in secrets for piece in secret.pieces() if piece in content]
    return found
