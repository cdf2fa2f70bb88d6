"""When a second space may be begun, filled and switched to: the rules that both engines ask."""

from __future__ import annotations

from vectorstore.errors import ArgumentError, SpaceNotReady
from vectorstore.types import Filling, Metric, Space


def check_space(value: object) -> Space:
    """Return *value* if it is a space that vectors can have."""
    if not isinstance(value, Space):
        raise ArgumentError("space", value, "a Space is needed")
    if not isinstance(value.fingerprint, str) or not value.fingerprint:
        raise ArgumentError("space.fingerprint", value.fingerprint, "a text that is not empty is needed")
    if isinstance(value.dimension, bool) or not isinstance(value.dimension, int) or value.dimension < 1:
        raise ArgumentError("space.dimension", value.dimension, "a whole number of 1 or more is needed")
    if not isinstance(value.metric, Metric):
        raise ArgumentError("space.metric", value.metric, f"a Metric is needed, or one of {', '.join(Metric)}")
    return value


def check_begun(space: Space, used: Space | None, filling: Space | None) -> None:
    """Raise unless *space* may be begun, or gone on with, beside the one in use."""
    if used is None:
        raise ArgumentError("space", space, "the store has no space yet; set_space records the first")
    if space == used:
        raise ArgumentError("space", space, "another one than the space in use is needed")
    if filling is not None and filling != space:
        raise SpaceNotReady(
            f"vectors of {filling} are being filled in; commit_space or abort_space ends that", filling=filling
        )


def check_filling(filling: Space | None, space: Space | None = None) -> Space:
    """Return the space being filled; raise where there is none, or where it is not *space*."""
    if filling is None:
        raise SpaceNotReady("no second space is being filled; begin_space begins one", filling=None)
    if space is not None and filling != space:
        raise SpaceNotReady(f"vectors of {filling} are being filled in, not of {space}", filling=filling)
    return filling


def check_complete(filling: Filling | None) -> None:
    """Raise where entries are pending."""
    if filling is not None and filling.pending:
        raise SpaceNotReady(
            f"{sum(filling.pending.values())} entries have neither a vector of {filling.space} nor a reason for"
            " none; unfilled() lists them, fill_space gives them one",
            filling=filling.space,
            pending=filling.pending,
        )
