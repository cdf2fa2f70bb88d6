"""Command ``python -m benchmarks calibrate``: profile of an embedder, by the half `choose` and unrelated questions."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.personal.cases import Case, cases_of
from benchmarks.recall.system import BY_KEY, Options, opened
from benchmarks.recall.task import Asked, Corpus
from tellback.memory import Embedder, LocalEmbedder, RecallSettings, SentenceEncoder
from tellback.memory.internals import EmbedderProfile, known_profile

PROBE_QUESTIONS = (
    "Who invented the telescope?",
    "What is the boiling point of lead?",
    "How do I repair a zip?",
    "Which river flows through Baghdad?",
    "What is my favourite board game?",
    "Who taught me to swim?",
    "When did I buy a sailing boat?",
    "How tall is the Matterhorn?",
    "Which opera did Bellini write last?",
    "What is the plot of Moby Dick?",
    "How many strings has a lute?",
    "Who painted the Night Watch?",
    "When was the zebra crossing invented?",
    "What is the recipe for goulash?",
    "Where can I get my watch repaired?",
    "Which insects live in my loft?",
    "How much does an elephant eat?",
    "Why did the Mayan cities fall?",
    "What is the square root of 1764?",
    "Who is the mayor of Palermo?",
    "Which planet has the most moons?",
    "What did the plumber say about the geyser?",
    "How often should I oil a sewing machine?",
    "When does the mushroom season begin?",
    "What is my lucky number?",
    "Who gave me the telescope?",
    "Which chess opening do I play?",
    "Where did I bury the time capsule?",
    "How do you fold a paper crane?",
    "What is the currency of Laos?",
    "When did my uncle emigrate to Chile?",
    "Which perfume does my aunt wear?",
    "What is the password of the fax machine?",
    "How deep is the Baltic Sea?",
    "Who repaired the church organ?",
    "Which wine goes with venison?",
    "What is the speed of a falcon?",
    "When did the volcano erupt?",
    "Where is my stamp collection?",
    "How long is a cricket pitch?",
    "Who wrote the national anthem?",
    "What did I sell at the flea market?",
    "Which horse won the race?",
    "How many teeth has a shark?",
    "What is the motto of the regiment?",
    "When is the lunar eclipse?",
    "Why is the lighthouse closed?",
    "What colour is the canoe?",
    "Who stole the bicycle pump?",
    "Which glue holds porcelain?",
)
"""Questions about what hardly anybody notes, half of them general and half personal."""

_SETS = ("own-notes", "chat")
_WEIGHTS = (0.45, 0.9, 1.3, 1.8)
_EMBEDDERS: dict[str, tuple[type[LocalEmbedder] | type[SentenceEncoder], str]] = {
    "sentences": (SentenceEncoder, "tellback"),
    "static": (LocalEmbedder, "tellback-static"),
}


def add_command(commands: Any) -> None:
    """Add the command to the subparsers of ``python -m benchmarks``."""
    command = commands.add_parser("calibrate", help="the profile of an embedder: weight of its cosines, and doubt")
    command.add_argument("--embedder", choices=_EMBEDDERS, default="sentences")
    command.add_argument("--out", type=Path, help="write the profile to this file, JSON")
    command.set_defaults(run=run_calibration)


def run_calibration(given: argparse.Namespace, words: Sequence[str], say: Callable[[str], None]) -> int:
    """Print the profile and the figures that it is chosen by; return the exit code."""
    embedder_type, system = _EMBEDDERS[given.embedder]
    embedder = embedder_type()
    cases = list(cases_of(_SETS, None))
    unrelated = [asyncio.run(_unrelated_cosine(embedder, case)) for case in cases]
    for case, cosine in zip(cases, unrelated, strict=True):
        say(f"{case.name}: best cosine of a question about nothing here, median: {cosine:.3f}")
    rank = {weight: _first_share(system, cases[0], weight) for weight in _WEIGHTS}
    for weight, share in rank.items():
        say(f"{cases[0].name}: right note first with cosines of weight {weight:g}, half choose: {share:.3f}")
    best = max(rank, key=lambda weight: rank[weight])
    known = known_profile(embedder.fingerprint) or EmbedderProfile()
    profile = replace(known, notes=best, unrelated=round(float(np.mean(unrelated)), 3))
    say(f"{embedder.fingerprint}: {profile}")
    if given.out is not None:
        values = {"fingerprint": embedder.fingerprint, "profile": asdict(profile)}
        given.out.write_text(json.dumps(values, indent=1) + "\n", "utf-8")
    return 0


async def _unrelated_cosine(embedder: Embedder, case: Case) -> float:
    statements = [item.text for item in case.items if not item.text.rstrip().endswith("?")]
    probes = await embedder.embed(PROBE_QUESTIONS, "query")
    return float(np.median((probes @ (await embedder.embed(statements)).T).max(axis=1)))


def _first_share(key: str, case: Case, weight: float) -> float:
    asked = [question for question in case.questions if question.half == "choose" and question.gold]
    settings = RecallSettings()
    settings = replace(settings, told={**settings.told, "cosine": weight})
    with TemporaryDirectory() as folder:
        system = opened(BY_KEY[key], Path(folder), Options(recall=settings))
        try:
            system.fill(Corpus(case.name, case.items, (), now=case.now))
            answers = [system.ask(Asked(question.id, question.text, "", {}), 1) for question in asked]
        finally:
            system.close()
    pairs = zip(asked, answers, strict=True)
    return sum(found.hits[0][0] in question.gold for question, found in pairs if found.hits) / len(asked)
