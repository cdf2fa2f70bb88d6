"""Tasks by the name of their data set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.recall.change_tasks import change_tasks
from benchmarks.recall.few_tasks import few_tasks
from benchmarks.recall.folder_tasks import folder_task
from benchmarks.recall.library_tasks import cranfield_tasks, squad_tasks
from benchmarks.recall.locomo_tasks import locomo_tasks
from benchmarks.recall.task import Task

READ: dict[str, Callable[[Path], list[Task]]] = {
    "locomo": locomo_tasks,
    "squad": squad_tasks,
    "cranfield": cranfield_tasks,
}
"""Data sets in a folder, with the functions that make their tasks."""
MADE: dict[str, Callable[[], list[Task]]] = {"updates": change_tasks, "few": few_tasks}
"""Sets that are made here."""
SETS = (*READ, *MADE)


def tasks_of(data: Path | None, sets: Sequence[str], folders: Sequence[Path] = ()) -> list[Task]:
    """Return the tasks of *sets* and of *folders*; raise ``ValueError`` for a missing one."""
    found: list[Task] = []
    for name in sets:
        if name in MADE:
            found += MADE[name]()
        elif name not in READ:
            raise ValueError(f"no data set {name}; known are {', '.join(SETS)}")
        elif data is None or not (data / name).is_dir():
            raise ValueError(
                f"no data set {name} in {data}: --data (or TELLBACK_BENCH_DATA) names the folder of the data sets"
            )
        else:
            found += READ[name](data)
    found += [folder_task(folder) for folder in folders]
    if not found:
        raise ValueError("nothing to measure: name a set or a folder")
    keys = [task.key for task in found]
    twice = [key for key in keys if keys.count(key) > 1]
    if twice:
        raise ValueError(f"the task {twice[0]} is there twice: folders need names of their own")
    return found
