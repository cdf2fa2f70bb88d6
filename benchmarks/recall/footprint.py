"""The memory of one system that holds the largest corpus of a task, in a process of its own.

``python -m benchmarks.recall.footprint KEY TASK SETTINGS`` prints the private memory, in MB, that it has after it was
filled and asked, above what its imports and the corpus itself take.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.recall.system import BY_KEY, Contender, Options, opened
from benchmarks.recall.tasks import tasks_of
from benchmarks.stores.asking import PROJECT, environment
from benchmarks.stores.cold import private_bytes

_ASKED = 20


def footprint(contender: Contender, task: str, place: Mapping[str, Any]) -> dict[str, Any]:
    """Return {"items", "mb"} of *contender* on *task*; *place* is how the task is made again over there."""
    words = [sys.executable, "-m", "benchmarks.recall.footprint", contender.key, task, json.dumps(place)]
    run = subprocess.run(words, cwd=PROJECT, env=environment(), capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError((run.stderr.strip().splitlines() or ["it ended without a word"])[-1])
    parsed: dict[str, Any] = json.loads(run.stdout)
    return parsed


def main(arguments: list[str]) -> int:
    """Measure in this process and print."""
    key, task_key, settings = arguments
    place = json.loads(settings)
    contender, options = BY_KEY[key], Options(place["vectors"], place["store"], place["seed"])
    tasks = tasks_of(
        Path(place["data"]) if place["data"] else None, place["sets"], [Path(item) for item in place["folders"]]
    )
    task = next(item for item in tasks if item.key == task_key)
    corpus = max(task.corpora(), key=lambda item: len(item.items))
    import_module(f"benchmarks.recall.{contender.place.partition(':')[0]}")
    if contender.module:
        import_module(contender.module)
    with TemporaryDirectory() as folder:
        before = private_bytes()
        system = opened(contender, Path(folder), options)
        system.fill(corpus)
        for asked in corpus.questions[:_ASKED]:
            system.ask(asked, 10)
        after = private_bytes()
        system.close()
    reported = None if before is None or after is None else round((after - before) / 1e6, 1)
    print(json.dumps({"items": len(corpus.items), "mb": reported}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
