"""The documentation as a site, with API pages made of the docstrings: ``python -m tests.support.docs_site [FOLDER]``.

Builds strictly, in a copy of docs/: a link to a page or heading that does not exist, or a name that cannot be resolved,
is an error. Without FOLDER, it only checks.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FACES = ("memory", "agent", "vectorstore")


def api_page(face: str) -> str:
    """Return the page of a package's public names, each by its docstring."""
    modules = import_module(f"tellback.{face}")._FACE.modules
    intro = f"Each name is imported from `tellback.{face}`. From the docstrings; by task: [public names](names.md)."
    return "\n\n".join([f"# API: tellback.{face}", intro, *(f"::: {modules[name]}.{name}" for name in sorted(modules))])


def build(folder: Path) -> int:
    """Build the site below *folder*; return the exit code of the builder."""
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copy(ROOT / ".ci" / "zensical.toml", folder)
    for face in FACES:
        (folder / "docs" / "reference" / f"api-{face}.md").write_text(api_page(face), encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    links = {**os.environ, "PYTHONPATH": str(ROOT / ".links")}  # the sources are read, in the shape of the package
    return subprocess.run(command, cwd=folder, env=links, check=False).returncode


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        code = build(Path(temporary))
        if code == 0 and len(sys.argv) > 1:
            shutil.copytree(Path(temporary) / "site", sys.argv[1])
        sys.exit(code)
