"""basic-memory: named, and not measured, since no release of it runs on the Python that this project is tested with."""

from __future__ import annotations

import platform
from pathlib import Path

from benchmarks.recall.system import Answered, NotAvailable, Options
from benchmarks.recall.task import Asked, Corpus


class BasicMemory:
    def __init__(self, folder: Path, options: Options) -> None:
        raise NotAvailable(
            f"basic-memory 0.24.1 needs Python 3.12 or newer, here is {platform.python_version()}; "
            "no adapter could be tried, and an untried one would say nothing"
        )

    def fill(self, corpus: Corpus) -> None: ...

    def ask(self, asked: Asked, k: int) -> Answered:
        return Answered(())

    def close(self) -> None: ...
