"""A tool run in a process of its own: nothing of pytest's threads is forked, a hang is ended, a signal is noticed.

``python -m tests.test_faults.isolated MODULE FUNCTION '{"argument": …}'`` runs one by hand and prints its result.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def isolated(function: Callable[..., Any], *, timeout: float, **arguments: Any) -> Any:
    """Return what *function*, a module's own, answers to *arguments*, which are JSON, in a new process."""
    command = [sys.executable, "-m", __name__, function.__module__, function.__name__, json.dumps(arguments)]
    environment = {
        **os.environ,
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "TELLBACK_FAULTS_LIMIT": str(timeout),
    }
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout + 30)
    assert done.returncode == 0, f"{arguments} ended with {done.returncode}:\n{done.stderr[-6000:]}"
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Run what the command line names."""
    module, function, arguments = sys.argv[1:]
    faulthandler.enable()
    if limit := os.environ.get("TELLBACK_FAULTS_LIMIT"):
        faulthandler.dump_traceback_later(float(limit), exit=True)
    result = getattr(importlib.import_module(module), function)(**json.loads(arguments))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
