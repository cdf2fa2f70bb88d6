r"""Ignore rules: the patterns of ``.gitignore`` files and of options, and what no folder is read for.

>>> rules = IgnoreRules.parse(["*.log", "!keep.log", "/data/"], "/notes")
>>> rules.matches("/notes/deep/a.log"), rules.matches("/notes/keep.log"), rules.matches("/notes/data", is_folder=True)
(True, False, True)
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Final

from tellback.memory.documents.loaders.registry import MEDIA_ENDINGS

IGNORE_FILES: Final = (".gitignore", ".ignore")
"""Files whose patterns say what of their folder is left out; the later one has the last word."""
_TOOL_FOLDERS: Final = frozenset(
    {"node_modules", "bower_components", "__pycache__", "__pypackages__", "venv", "env", "virtualenv", "site-packages"}
    | {"build", "_build", "dist", "target", "htmlcov", "__MACOSX", "$RECYCLE.BIN", "System Volume Information"}
    | {"lost+found"}
)
_MAX_IGNORE_FILE: Final = 1_000_000
_STYLE_SHEETS: Final = (".css", ".scss", ".less", ".sass", ".styl")
_SEARCH_INDEXES: Final = frozenset(
    {"searchindex.js", "search_index.js", "search_index.json", "search-index.json", "searchindex.json", "objects.inv"}
    | {"py-modindex.html", "search.html", "lunr.json"}
)
_MANUAL_INDEX: Final = re.compile(r"(?:genindex(?:-\w+)?|bookindex|ix01|index-all)\.html$")
_LOCK_FILES: Final = frozenset(
    {"package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb", "deno.lock"}
    | {"poetry.lock", "pdm.lock", "uv.lock", "pipfile.lock", "pixi.lock", "cargo.lock", "composer.lock", "gemfile.lock"}
    | {"go.sum", "flake.lock", "mix.lock", "pubspec.lock", "podfile.lock", "packages.lock.json", "gradle.lockfile"}
)
NOT_BY_ENDING: Final = frozenset({"hidden", "minified code", "a search index", "the index of a manual", "a lock file"})
"""Reasons of ``file_reason`` that hold for a file of any ending: including "*.html" asks for none of these."""
_MINIFIED: Final = re.compile(r"[.-]min\.(?:js|mjs|cjs|css|html|json)$")
_MAP: Final = re.compile(r"\.(?:map|js\.map|css\.map)$")


@dataclass(frozen=True, slots=True)
class _Rule:
    base: str
    pattern: re.Pattern[str]
    negated: bool
    folders_only: bool


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """Patterns in the order of their files; the last one that matches decides. Paths are absolute, with slashes."""

    rules: tuple[_Rule, ...] = ()

    @classmethod
    def parse(cls, lines: Iterable[str], folder: str) -> IgnoreRules:
        """Return the rules of *lines*, in the syntax of ``.gitignore``, for what is below *folder*."""
        base = folder.rstrip("/") + "/"
        return cls(tuple(rule for line in lines if (rule := _parse_rule(line, base)) is not None))

    def matches(self, path: str, *, is_folder: bool = False) -> bool:
        """Return whether *path* itself is meant; of what is below a folder that is, nothing is said."""
        for rule in reversed(self.rules):
            reached = path.startswith(rule.base) and (is_folder or not rule.folders_only)
            if reached and rule.pattern.fullmatch(path, len(rule.base)):
                return not rule.negated
        return False

    def reaches(self, path: str, root: str) -> bool:
        """Return whether the file at *path*, or a folder between *root* and it, is meant."""
        if self.matches(path):
            return True
        end = path.rfind("/")
        while end > len(root):
            if self.matches(path[:end], is_folder=True):
                return True
            end = path.rfind("/", 0, end)
        return False

    def __add__(self, others: IgnoreRules) -> IgnoreRules:
        return IgnoreRules(self.rules + others.rules) if others.rules else self


def _parse_rule(line: str, base: str) -> _Rule | None:
    line = line.rstrip("\r\n")
    if line.startswith("#") or not line.strip():
        return None
    line = re.sub(r"(?<!\\)[ \t]+$", "", line)
    negated = line.startswith("!")
    pattern = line[1:] if negated else line
    folders_only = pattern.endswith("/")
    pattern = pattern.rstrip("/")
    if not pattern:
        return None
    if "/" not in pattern:
        pattern = f"**/{pattern}"
    try:
        return _Rule(base, _compiled(pattern.lstrip("/")), negated, folders_only)
    except re.error:
        return None


@lru_cache(maxsize=1000)
def _compiled(pattern: str) -> re.Pattern[str]:
    parts: list[str] = []
    position = 0
    while position < len(pattern):
        rest = pattern[position:]
        if rest.startswith("**/") and (position == 0 or pattern[position - 1] == "/"):
            parts.append("(?:[^/]+/)*")
            position += 3
        elif rest == "**" and (position == 0 or pattern[position - 1] == "/"):
            parts.append(".+")
            position += 2
        elif rest[0] == "*":
            parts.append("[^/]*")
            position += len(rest) - len(rest.lstrip("*"))
        elif rest[0] == "?":
            parts.append("[^/]")
            position += 1
        elif rest[0] == "[" and (end := rest.find("]", 2)) > 0:
            inside = rest[1:end].replace("\\", "\\\\").replace("[", "\\[")
            parts.append(f"[^/{inside[1:]}]" if inside[0] in "!^" else f"(?!/)[{inside}]")
            position += end + 1
        else:
            position += rest[0] == "\\" and len(rest) > 1
            parts.append(re.escape(pattern[position]))
            position += 1
    return re.compile("".join(parts), re.DOTALL)


def ignore_files_above(root: Path) -> IgnoreRules:
    """Return the rules for *root* of the ignore files in the folders above it, up to that of its repository."""
    rules = IgnoreRules()
    for depth, folder in enumerate((root, *root.parents)):
        if (folder / ".git").exists():
            for parent in reversed(root.parents[:depth]):
                rules += read_ignore_files(parent)
            break
    return rules


def read_ignore_files(folder: Path) -> IgnoreRules:
    """Return the rules of the ignore files that lie in *folder*; unreadable ones have none."""
    rules = IgnoreRules()
    for name in IGNORE_FILES:
        path = folder / name
        try:
            if path.is_file() and path.stat().st_size <= _MAX_IGNORE_FILE:
                lines = path.read_text("utf-8-sig", "replace").splitlines()
                rules += IgnoreRules.parse(lines, folder.as_posix())
        except OSError:
            continue
    return rules


def folder_reason(name: str, path: Path) -> str:
    """Return why the folder *name* at *path* is left out of every ingest; "" if it is not."""
    if name.startswith("."):
        return "hidden"
    if name in _TOOL_FOLDERS or name.endswith(".egg-info"):
        return "a folder that tools fill"
    return "a virtual environment" if (path / "pyvenv.cfg").exists() else ""


def file_reason(name: str) -> str:
    """Return why a file called *name* is left out where it was not asked for by name; "" if it is not."""
    name = name.casefold()
    if name.startswith("."):
        return "hidden"
    if _MINIFIED.search(name):
        return "minified code"
    if _MAP.search(name):
        return "a source map"
    if name.endswith(_STYLE_SHEETS):
        return "a style sheet"
    if name in _SEARCH_INDEXES:
        return "a search index"
    if _MANUAL_INDEX.match(name):
        return "the index of a manual"
    return "a lock file" if name in _LOCK_FILES else MEDIA_ENDINGS.get(PurePath(name).suffix, "")
