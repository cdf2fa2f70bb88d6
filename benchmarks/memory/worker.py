"""The process of one system: JSON lines in, JSON lines out. It runs in the system's environment, on this file alone."""

from __future__ import annotations

import json
import os
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]


def main(place: str) -> None:
    """Serve the system at *place*, ``module:Class``, until the pipe is closed."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a system prints must not stand among the answers
    sys.path += [str(Path.cwd()), str(_ROOT)]  # last, so that no folder here shadows a package of the environment
    from benchmarks.memory.protocol import Item, MemorySystem, Question, Settings, Unavailable

    system: MemorySystem | None = None
    for line in sys.stdin:
        asked: dict[str, Any] = json.loads(line)
        wall, cpu = time.perf_counter(), time.process_time()
        answer: dict[str, Any] = {}
        try:
            if "open" in asked:
                module, _, name = place.partition(":")
                settings = Settings(**{**asked["open"], "folder": Path(asked["open"]["folder"])})
                system = getattr(import_module(module), name)(settings)
            elif system is None:
                raise RuntimeError("it is not open")
            elif "ingest" in asked:
                system.ingest([Item(**item) for item in asked["ingest"]])
            elif "search" in asked:
                found = system.search(Question(**asked["search"]), asked["k"], asked["tokens"])
                answer["hits"] = [[hit.id, float(hit.score), hit.text] for hit in found.hits]
                answer |= {"confidence": found.confidence, "abstains": found.abstains}
            else:
                (name,) = asked
                answer["value"] = getattr(system, name)()
        except Unavailable as error:
            answer = {"unavailable": _first_line(error)}
        except Exception as error:  # it is named in the report and does not end the run
            answer = {"error": f"{type(error).__name__}: {_first_line(error)}"}
        answer["ms"] = (time.perf_counter() - wall) * 1e3
        answer["cpu_ms"] = (time.process_time() - cpu) * 1e3
        answer["rss"] = _peak_memory()
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
        if "close" in asked:
            return


def _peak_memory() -> int:
    """Return the most memory that the process held, in bytes; 0 where the system does not tell."""
    try:
        lines = Path("/proc/self/status").read_text("utf-8").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return 0


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:300]


if __name__ == "__main__":
    main(sys.argv[1])
