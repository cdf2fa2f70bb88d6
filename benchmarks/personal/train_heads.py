"""Heads that tell what a text is, fitted to sentences and topics by several writers.

``data/sentences`` has, by writer, sentences with what each is; those of the adversary look alike and differ in class.
Notes of ``data/topics`` count, too, alone and with their lines, as a memory stores them. The report leaves out a
fourth of the writers at a time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.personal.hands import DATA
from tellback.memory import E5Encoder, run_sync
from tellback.memory.analysis.heads import Head, letter_groups, save_heads

CLASSES = {
    "kind": ("statement", "stating question", "stating command", "question", "command", "small talk"),
    "topic": ("none", "name", "home", "work", "family", "health", "preferences", "possessions", "routines"),
    "modality": ("holds", "past", "plan", "supposed", "unreal", "nothing"),
    "change": ("same", "change", "correction"),
    "time": ("now", "past", "event"),
}
_BY_LETTERS_ALONE = ("kind", "topic")
SENTENCES, TOPICS = DATA / "sentences", DATA / "topics"
_STEPS, _RATE = 120, 0.1
_SPREAD = 8.0
"""Factor of vectors around their mean, so that one decay suits vectors and groups of letters."""
_DECAY, _DECAY_OF_LETTERS = 3.0, {"kind": 1.0, "topic": 0.3, "modality": 1.0, "change": 0.5, "time": 1.0}
"""Weight of the squares of a head's weights beside the sum of losses."""
_TOPICS_OF_KINDS = 4
"""Of so many topics one shows kinds of utterances: its notes and questions would outweigh commands and small talk."""
BY_VECTORS_ALONE = tuple(f"writer-{letter}" for letter in "mnopqrstuvwxy")
"""Writers of topics from whom letters learn nothing: by them, short statements were questions, and changes none."""
_FOLDS = 4
"""Groups of writers, each left out once."""
_MODALITY = {
    "now": "holds",
    "past": "past",
    "past_habit": "past",
    "plan": "plan",
    "wish": "plan",
    "hypothesis": "supposed",
    "joke": "unreal",
    "quotation": "unreal",
    "question": "nothing",
}
"""Modality of a kind of sentence, or of near note; other near notes hold, of something else."""
_UNCHANGED = ("told", "same_domain", "both_hold")
"""Notes of a topic that tell of no change; one about somebody else, or a later remark, may tell of one, too."""

Floats = NDArray[np.float32]


class Example(NamedTuple):
    """Text by *writer* that is of *label* for the head *name*; *line* says what it is about."""

    name: str
    label: str
    text: str
    writer: str
    line: str = ""


def examples() -> Iterator[Example]:
    """Yield the examples of all heads."""
    for path in sorted(TOPICS.glob("*.jsonl")):
        for place, topic in enumerate(map(json.loads, path.read_text("utf-8").splitlines())):
            shows_kind = place % _TOPICS_OF_KINDS == 0
            notes = [(kind, topic[kind], topic["about"]) for kind in ("told", "changed", "again")]
            notes += [(near["kind"], near["text"], near.get("about", "")) for near in topic["near"]]
            for kind, text, about in notes:
                for line in dict.fromkeys(("", about)):
                    yield Example("modality", _MODALITY.get(kind, "holds"), text, path.stem, line)
                    if kind == "changed" or kind in _UNCHANGED:
                        yield Example("change", "change" if kind == "changed" else "same", text, path.stem, line)
                if shows_kind:
                    yield Example("kind", "question" if kind == "question" else "statement", text, path.stem)
            for question in topic["questions"]:
                if shows_kind:
                    yield Example("kind", "question", question["text"], path.stem)
                yield Example("time", "past" if question["kind"] == "past" else "now", question["text"], path.stem)
    for path in sorted(SENTENCES.glob("*.jsonl")):
        for row in map(json.loads, path.read_text("utf-8").splitlines()):
            yield Example("kind", _kind(row), row["text"], path.stem)
            if "modality" not in row:
                continue
            modality = _MODALITY[row["modality"]] if row["kind"] == "statement" else "nothing"
            yield Example("modality", modality, row["text"], path.stem)
            if "topic" in row:
                yield Example("topic", row["topic"], row["text"], path.stem)
            if modality == "holds":
                change = "correction" if row.get("corrects") else "change" if row["change"] else "same"
                yield Example("change", change, row["text"], path.stem)
            if row["kind"] == "question" and row.get("asked"):
                yield Example("time", row["asked"]["time"], row["text"], path.stem)


def _kind(row: Mapping[str, Any]) -> str:
    """Return the kind of utterance of *row*: a musing counts as a statement, which loses nothing."""
    kind = {"request": "command", "musing": "statement", "small_talk": "small talk"}.get(row["kind"], row["kind"])
    return f"stating {kind}" if row.get("states") else str(kind)


def train_heads(say: Callable[[str], None]) -> None:
    """Fit all heads and write them; report on writers left out."""
    given, vectors_of = list(examples()), _Vectors()
    trained = {}
    for name, classes in CLASSES.items():
        of_head = [example for example in given if example.name == name]
        if name not in _BY_LETTERS_ALONE:
            trained[name] = _trained(name, classes, of_head, vectors_of.of(of_head), _DECAY, say)
        bare = [
            one for one in of_head if not one.line and one.writer not in BY_VECTORS_ALONE and one.label != "correction"
        ]
        letters = letter_groups([example.text for example in bare])
        decay, name = _DECAY_OF_LETTERS[name], f"{name} by letters"
        trained[name] = _trained(name, classes, bare, letters, decay, say)
    save_heads(trained)


def _trained(
    name: str,
    classes: tuple[str, ...],
    given: Sequence[Example],
    vectors: Floats,
    decay: float,
    say: Callable[[str], None],
) -> Head:
    """Return the head of *given*; say how often it is right of writers who are left out, and of each class."""
    labels = np.array([classes.index(example.label) for example in given])
    _, writers = np.unique([example.writer for example in given], return_inverse=True)
    fold = (writers if writers.any() else np.arange(len(given))) % _FOLDS
    best = np.zeros(len(labels), np.int64)
    for left_out in range(_FOLDS):
        fitted = fit_head(classes, vectors[fold != left_out], labels[fold != left_out], decay)
        best[fold == left_out] = np.argmax(list(fitted.shares(vectors[fold == left_out]).values()), axis=0)
    found = ", ".join(f"{one} {(best == i)[labels == i].mean():.2f}" for i, one in enumerate(classes) if i in labels)
    say(f"{name}: {len(labels)} texts, right of writers left out {(best == labels).mean():.3f}; {found}")
    return fit_head(classes, vectors, labels, decay)


def fit_head(classes: tuple[str, ...], vectors: Floats, labels: NDArray[np.int64], decay: float) -> Head:
    """Return the softmax regression of *labels* on *vectors*, by Adam, with *decay* of its weights."""
    middle = vectors.mean(axis=0)
    spread = _SPREAD * (vectors - middle)
    right = np.eye(len(classes), dtype=np.float32)[labels]
    weights, bias = np.zeros((len(classes), vectors.shape[1]), np.float32), np.zeros(len(classes), np.float32)
    values = [weights, bias]
    first, second = ([np.zeros_like(value) for value in values] for _ in range(2))
    for step in range(1, _STEPS + 1):
        logits = spread @ values[0].T + values[1]
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        error = (shares / shares.sum(axis=1, keepdims=True) - right) / len(labels)
        slopes = [error.T @ spread + decay / len(labels) * values[0], error.sum(axis=0)]
        rate = _RATE * (1 - step / (_STEPS + 1))
        for place, slope in enumerate(slopes):
            first[place] = 0.9 * first[place] + 0.1 * slope
            second[place] = 0.999 * second[place] + 0.001 * slope * slope
            scaled = first[place] / (1 - 0.9**step)
            values[place] = values[place] - rate * scaled / (np.sqrt(second[place] / (1 - 0.999**step)) + 1e-8)
    return Head(classes, values[0] * _SPREAD, values[1] - _SPREAD * values[0] @ middle)


class _Vectors:
    """Vectors of examples as a memory stores them; each text is encoded once."""

    def __init__(self) -> None:
        self._encoder, self._known = E5Encoder(), dict[tuple[str, str], Floats]()

    def of(self, given: Sequence[Example]) -> Floats:
        """Return the vectors of *given*: with a line the mean of line and text and of line."""
        if given[0].name == "time":
            return self._encoded([example.text for example in given], "query")
        texts = [f"{example.line}: {example.text}" if example.line else example.text for example in given]
        lines = [example.line or example.text for example in given]
        sums = self._encoded(texts, "document") + self._encoded(lines, "document")
        return np.asarray(sums / np.linalg.norm(sums, axis=1, keepdims=True))

    def _encoded(self, texts: Sequence[str], kind: Literal["document", "query"]) -> Floats:
        if missing := [text for text in dict.fromkeys(texts) if (text, kind) not in self._known]:
            vectors = run_sync(self._encoder.embed(missing, kind))
            self._known.update(zip(((text, kind) for text in missing), vectors, strict=True))
        return np.stack([self._known[text, kind] for text in texts])
