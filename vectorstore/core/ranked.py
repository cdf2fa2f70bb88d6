"""A ranking as the core gives it: (row key, score), best first."""

from __future__ import annotations

from typing import TypeAlias

Ranked: TypeAlias = list[tuple[int, float]]
