"""Prose of the code: ``python -m tests.support.prose [FOLDER…]`` lists docstrings and locals that the style rules out.

Docstrings begin with a noun of the domain or a verb, not with "what", "who", "how" or "whether"; locals are named by
what they hold, not "one", "at", "told", "said" or "there".
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("agent", "memory", "vectorstore", "benchmarks", "tests", "examples")
_OPENING = re.compile(r"(?:what|who|whom|whose|how|whether|one that|that which)\b", re.IGNORECASE)
_NAMES = frozenset({"one", "at", "told", "said", "there"})
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def findings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the words of each docstring and local of a module that the style rules out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and (text := ast.get_docstring(node)) and _OPENING.match(text):
            yield getattr(node, "lineno", 1), f"docstring: {text.splitlines()[0][:80]}"
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.comprehension)):
            names = (inner for inner in ast.walk(node) if isinstance(inner, ast.Name))
            yield from ((name.lineno, f"local: {name.id}") for name in names if _is_ruled_out(name))


def _is_ruled_out(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store) and name.id in _NAMES


def main() -> int:
    """Print the findings below the folders given, else of the whole project; return 1 if there are any."""
    folders = sys.argv[1:] or PACKAGES
    found = [
        f"{path.relative_to(ROOT)}:{line}: {words}"
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, words in sorted(set(findings(path)))
    ]
    print("\n".join(found))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
