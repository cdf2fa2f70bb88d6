"""LangChain's standard suites over ``examples/langchain``: ``python -m tests.support.langchain_suites``.

The suites bring plugins that change how pytest runs, so they have an environment of their own, made for this run from
the checkout and ``langchain-tests``.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
_OPTIONS: Final = (
    *("-q", "-c", "/dev/null", "-p", "no:cacheprovider"),
    *("-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function"),
)


def main() -> int:
    """Run the suites in a new environment; return pytest's exit code."""
    adapter = ROOT / "examples" / "langchain"
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "-q", "-e", str(ROOT), "langchain-tests"], check=True)
        run = [python, "-m", "pytest", *_OPTIONS, "--rootdir", str(adapter), str(adapter / "suites.py")]
        return subprocess.run(run, cwd=adapter, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
