"""Profiles of unknown embedders: measured once by probe texts, kept in the file, and what they change in recall.

Inner parts, on no face: ``tellback.memory.embedders.probe_pairs``, ``tellback.memory.embedders.profile``,
``tellback.memory.tables.embedder_probes``.
"""

from __future__ import annotations

import zlib
from asyncio import run
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from tellback.memory import FunctionEmbedder, HashingEmbedder, LongTermMemory, open_memory
from tellback.memory.embedders.probe_pairs import PROBE_PAIRS, PROBE_TEXTS, measured_profile
from tellback.memory.embedders.profile import UNKNOWN_PROFILE, known_profile, profile_of_fields
from tellback.memory.tables.embedder_probes import EmbedderProbes

TOPICS = {text: number for number, pair in enumerate(PROBE_PAIRS) for text in pair}
NOTES = [f"The {word} is kept in drawer {number}." for number, word in enumerate("abcdefghijklmnopqrstuvw")]


class Encoder:
    """Knows which texts belong together: each has the direction of its topic, noise of its own, and *common* of all."""

    def __init__(self, common: float = 0.0) -> None:
        self.common = common
        self.asked: list[str] = []

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked += texts
        return [self._vector(text).tolist() for text in texts]

    def _vector(self, text: str) -> np.ndarray:
        vector = np.random.default_rng(zlib.crc32(text.encode())).normal(scale=0.1, size=len(PROBE_PAIRS) + 1)
        if text in TOPICS:
            vector[TOPICS[text]] += 1
        vector[-1] += self.common
        return vector

    def embedder(self) -> FunctionEmbedder:
        return FunctionEmbedder(self, dimension=len(PROBE_PAIRS) + 1, fingerprint="stranger", remote=False)


def profile_by(embedder: FunctionEmbedder | HashingEmbedder):
    half = len(PROBE_TEXTS) // 2
    return measured_profile(run(embedder.embed(PROBE_TEXTS[:half])), run(embedder.embed(PROBE_TEXTS[half:])))


def filled(path: Path, encoder: Encoder, notes: Sequence[str]) -> LongTermMemory:
    memory = open_memory(path, embedder=encoder.embedder())
    run(memory.remember_many(notes))
    return memory


def test_an_embedder_that_separates_the_probe_pairs_gets_more_weight_and_a_rescaled_cosine() -> None:
    plain, narrow = profile_by(Encoder().embedder()), profile_by(Encoder(common=2.0).embedder())
    assert plain.notes > UNKNOWN_PROFILE.notes
    assert plain.base == 0
    assert narrow.base > 0.7
    assert plain.unrelated is not None
    assert narrow.unrelated == pytest.approx(plain.unrelated, abs=0.15)
    assert narrow.rescaled(np.array([1.0, narrow.base])).tolist() == pytest.approx([1, 0])
    assert profile_by(HashingEmbedder()) == UNKNOWN_PROFILE
    assert profile_of_fields(asdict(narrow)) == narrow
    assert profile_of_fields({"notes": "much"}) == profile_of_fields({"of another version": 1}) == UNKNOWN_PROFILE


def test_a_profile_is_measured_once_when_the_memory_is_large_enough_and_kept_in_the_file(tmp_path: Path) -> None:
    encoder = Encoder()
    memory = filled(tmp_path / "m.db", encoder, NOTES[:18])
    run(memory.remember("One more."))
    assert not TOPICS.keys() & encoder.asked
    run(memory.remember("And one more."))
    run(memory.remember("And another."))
    assert [text for text in encoder.asked if text in TOPICS] == list(PROBE_TEXTS)
    profile = memory.embedding.profile("stranger")
    assert profile.unrelated is not None
    run(memory.close())
    again = Encoder()
    memory = filled(tmp_path / "m.db", again, ["Something else."])
    assert memory.embedding.profile("stranger") == profile
    assert not TOPICS.keys() & again.asked
    run(memory.close())


def test_a_known_embedder_is_not_measured_and_a_failure_on_the_probes_fails_no_write(tmp_path: Path) -> None:
    assert known_profile("local/use-multilingual-3-256") is not None
    assert known_profile("stranger") is None
    encoder = Encoder()

    def failing(texts: Sequence[str]) -> list[list[float]]:
        if TOPICS.keys() & set(texts):
            raise ConnectionError("away")
        return encoder(texts)

    embedder = FunctionEmbedder(failing, dimension=len(PROBE_PAIRS) + 1, fingerprint="stranger", remote=False)
    memory = open_memory(tmp_path / "m.db", embedder=embedder)
    run(memory.remember_many(NOTES))
    report = run(memory.remember("One more."))
    assert (report.stored, report.deferred) == (True, None)
    assert memory.embedding.profile("stranger") == UNKNOWN_PROFILE
    run(memory.close())


def test_a_damaged_profile_is_a_finding_until_the_database_is_rebuilt(tmp_path: Path) -> None:
    memory = filled(tmp_path / "m.db", Encoder(), NOTES)
    run(memory.remember("One more."))
    database = memory.store.database  # type: ignore[attr-defined]
    with database.write() as connection:
        connection.execute("UPDATE embedder_profiles SET profile = '{}{'")
    (finding,) = memory.store.verify()  # type: ignore[attr-defined]
    assert (finding.part, finding.subject) == ("embedder_probes", "stranger")
    assert EmbedderProbes(database).profile("stranger") is None
    database.rebuild()
    assert memory.store.verify() == []  # type: ignore[attr-defined]
    run(memory.close())
