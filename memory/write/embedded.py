"""An embedder's answer as it is stored: checked, and for each text a vector, a reason for none, or why it waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from memory.embedders.details import Embeddings, Truncation, embed_detailed
from memory.embedders.protocol import Embedder, EmbeddingKind
from memory.errors import EmbedderError
from memory.redaction import redacted
from vectorstore import Space, Vector

NOTHING_TO_EMBED = "nothing to embed"
ZEROS = "it gave a vector of zeros"
NO_EMBEDDER = "no embedder is configured"
REFUSED = "the embedder refused it"
SWITCHED = "the memory was switched to another embedder meanwhile"


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """A vector for each text or None; *reasons* say why one never has one, *deferred* why all must wait.

    By place: *refused* says which texts the embedder refused and why (they wait, by themselves), *truncated* which it
    cut. *space* is that of the vectors.
    """

    vectors: tuple[Vector | None, ...]
    reasons: tuple[str | None, ...]
    deferred: str | None = None
    refused: Mapping[int, str] = field(default_factory=lambda: MappingProxyType({}))
    truncated: Mapping[int, Truncation] = field(default_factory=lambda: MappingProxyType({}))
    space: Space | None = None

    @classmethod
    def later(cls, count: int, why: str) -> Embedded:
        """Return *count* texts whose vectors are still to come."""
        return cls((None,) * count, (None,) * count, why)

    def waits(self, place: int) -> str | None:
        """Return why the text at *place* has no vector yet; None when it has one or never will."""
        return self.refused.get(place) or self.deferred

    def among(self, count: int, places: Sequence[int], reason: str) -> Embedded:
        """Return the same as part of *count* texts: these are at *places*, the others get no vector for *reason*."""
        vectors: list[Vector | None] = [None] * count
        reasons: list[str | None] = [reason] * count
        for new, vector, why in zip(places, self.vectors, self.reasons, strict=True):
            vectors[new], reasons[new] = vector, why
        return replace(
            self,
            vectors=tuple(vectors),
            reasons=tuple(reasons),
            refused={places[old]: why for old, why in self.refused.items()},
            truncated={places[old]: cut for old, cut in self.truncated.items()},
        )

    def part(self, places: Sequence[int]) -> Embedded:
        """Return the same of some of the texts, in the order of *places*."""
        return replace(
            self,
            vectors=tuple(self.vectors[place] for place in places),
            reasons=tuple(self.reasons[place] for place in places),
            refused={new: self.refused[old] for new, old in enumerate(places) if old in self.refused},
            truncated={new: self.truncated[old] for new, old in enumerate(places) if old in self.truncated},
        )


def embedded(made: Embeddings, space: Space) -> Embedded:
    """Return an embedder's answer as it is stored."""
    filled = [bool(row.any()) for row in made.vectors]
    never = [None if some or place in made.refused else NOTHING_TO_EMBED for place, some in enumerate(filled)]
    vectors = tuple(row.copy() if some else None for row, some in zip(made.vectors, filled, strict=True))
    refused = {place: f"{REFUSED}: {redacted(why)}" for place, why in made.refused.items()}
    return Embedded(vectors, tuple(never), None, refused, dict(made.truncated), space)


async def asked_once(embedder: Embedder, texts: Sequence[str], kind: EmbeddingKind = "document") -> Embeddings:
    """Return *embedder*'s checked answer; a text that stands there twice is given to it once."""
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    made = checked(await embed_detailed(embedder, list(places), kind), list(places))
    if len(places) == len(texts):
        return made
    at = [places[text] for text in texts]
    return Embeddings(
        made.vectors[at],
        {place: made.truncated[one] for place, one in enumerate(at) if one in made.truncated},
        {place: made.refused[one] for place, one in enumerate(at) if one in made.refused},
    )


def checked(made: Embeddings, texts: Sequence[str]) -> Embeddings:
    """Return *made* if it is a finite vector for each text; zeros for a text with letters or digits are a refusal."""
    try:
        rows = np.asarray(made.vectors, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise EmbedderError(
            f"{len(texts)} texts gave {type(made.vectors).__name__}, not an array of numbers"
        ) from error
    if rows.ndim != 2 or len(rows) != len(texts) or not np.isfinite(rows).all():
        raise EmbedderError(f"{len(texts)} texts gave vectors of shape {rows.shape}, or some not finite")
    empty = {
        place: ZEROS for place in np.flatnonzero(~rows.any(axis=1)).tolist() if any(map(str.isalnum, texts[place]))
    }
    return Embeddings(rows, made.truncated, {**empty, **made.refused})
