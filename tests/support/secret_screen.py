"""Recall and false alarms of a screen for secrets, on sentences drawn from a seed.

``python -m tests.support.secret_screen [--seed N] [--each N] [--texts FILE …] [--json FILE]`` tries each form of
``secret_forms`` and prints what was missed, and what was wrongly taken for a secret; then what is taken for one in
ordinary texts, the project's own pages unless others are named.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tellback.memory.internals import find_secrets, redact_secrets
from tests.support.secret_forms import Case, look_alikes, secrets

_PAGES = Path(__file__).parents[2] / "docs"
Screen = Callable[[str], tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Figures:
    """Outcome of a screen: *missed* and *alarmed* count by form."""

    secrets: int
    look_alikes: int
    missed: dict[str, int]
    alarmed: dict[str, int]
    seconds: float

    @property
    def recall(self) -> float:
        """The share of secrets of which no half was left."""
        return 1 - sum(self.missed.values()) / self.secrets

    @property
    def false_alarms(self) -> float:
        """The share of look-alikes in which something was taken for a secret."""
        return sum(self.alarmed.values()) / self.look_alikes


def measured(seed: int, each: int, screen: Screen = redact_secrets) -> Figures:
    """Try *screen* on *each* sentences of every form with a secret, and four times as many of those without."""
    hidden, harmless = list(secrets(seed, each)), list(look_alikes(seed, 4 * each))
    begun = time.perf_counter()
    missed = _counted(case for case in hidden if _left(case, screen(case.text)[0]))
    alarmed = _counted(case for case in harmless if screen(case.text)[1])
    return Figures(len(hidden), len(harmless), missed, alarmed, time.perf_counter() - begun)


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print the table, and write the figures where they are asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.secret_screen")
    parser.add_argument("--seed", type=int, default=1, help="random seed of the sentences")
    parser.add_argument("--each", type=int, default=20, help="sentences of each form")
    parser.add_argument("--texts", type=Path, nargs="+", default=[_PAGES], help="ordinary texts: files or folders")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    given = parser.parse_args(words)
    console = Console(width=110)
    figures = measured(given.seed, given.each)
    table = Table(title=f"Secrets, seed {given.seed}")
    for column in ("what", "sentences", "share", "which"):
        table.add_column(column)
    table.add_row("found", str(figures.secrets), f"{figures.recall:.4f}", _listed("missed", figures.missed))
    table.add_row(
        "false alarms", str(figures.look_alikes), f"{figures.false_alarms:.4f}", _listed("in", figures.alarmed)
    )
    console.print(table)
    for kind, line in (alarms := list(text_alarms(given.texts))):
        console.print(f"{kind}: {line}", style="dim", highlight=False, markup=False, soft_wrap=True)
    console.print(f"{len(alarms)} alarms in ordinary texts: {', '.join(map(str, given.texts))}", highlight=False)
    console.print(f"{figures.seconds:.2f} s for all of them", style="dim", highlight=False)
    if given.json is not None:
        shares = {"recall": figures.recall, "false_alarms": figures.false_alarms}
        given.json.write_text(json.dumps({**asdict(figures), **shares}, indent=1) + "\n")
    return 0


def text_alarms(paths: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Yield the kind of what is taken for a secret in the texts at *paths*, and the line that it stands in."""
    for path in paths:
        for file in sorted(path.rglob("*.*")) if path.is_dir() else [path]:
            text = file.read_bytes().decode("utf-8", "replace")
            for span in find_secrets(text):
                begin = text.rfind("\n", 0, span.start) + 1
                yield span.kind, f"{file.name}: {text[begin : span.end][-150:].strip()}"


def _left(case: Case, cleaned: str) -> bool:
    """Return whether one half of the secret or the other is left."""
    assert case.secret is not None
    middle = len(case.secret) // 2
    return case.secret[:middle] in cleaned or case.secret[middle:] in cleaned


def _counted(cases: Iterable[Case]) -> dict[str, int]:
    return dict(Counter(case.form for case in cases))


def _listed(lead: str, counts: dict[str, int]) -> str:
    return f"{lead}: " + ", ".join(f"{form} ({count})" for form, count in counts.items()) if counts else "-"


if __name__ == "__main__":
    raise SystemExit(main())
