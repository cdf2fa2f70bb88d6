"""Layout of the code: files, lines and signatures counted, and the modules that a recall passes through.

``python -m tests.support.structure`` counts the ``*.py`` of the three packages; ``--trace`` also follows the calls of a
memory of 20 turns (offline, with the local embedder where it is installed). Only public names are imported, so that the
figures of two layouts can be compared.
"""

from __future__ import annotations

import argparse
import ast
import json
import statistics
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import tellback

ROOT = Path(tellback.__file__).parent
PACKAGES = ("vectorstore", "memory", "agent")
FOLDER_LIMIT = 16
"""Files beside its ``__init__`` that a folder may have; families of implementations may have more."""
PARAMETER_LIMIT = 10
TURNS = (
    "I moved to Lisbon in May.",
    "My sister Ana is allergic to walnuts.",
    "We adopted a cat called Miso.",
    "My bicycle has a red saddle.",
    "The new job at the harbour begins in April.",
    "My manager is called Teresa.",
    "I drink green tea in the morning.",
    "The spare key is with the neighbour.",
    "I prefer the window seat on trains.",
    "The boiler is serviced in October.",
    "I play the cello in an orchestra.",
    "My doctor opens at eight.",
    "The car was repaired last week.",
    "Grandmother was born in August.",
    "I am learning Japanese.",
    "The balcony needs paint.",
    "We walked to the old mill.",
    "The ferry was late again.",
    "My brother lives in Porto.",
    "The cat is afraid of the vacuum cleaner.",
)
QUESTION = "Which nuts must my sister avoid?"


@dataclass(frozen=True, slots=True)
class Source:
    """One file: its *path* below the project, and what its syntax tree holds.

    *signatures* are (parameters, name) of each function, ``self`` and ``cls`` of methods left out.
    """

    path: str
    lines: int
    blank: int
    nodes: int
    docstrings: int
    docstring_lines: int
    classes: tuple[str, ...]
    signatures: tuple[tuple[int, str], ...]

    @property
    def folder(self) -> str:
        """The folder it lies in."""
        return self.path.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over some files, and the quartiles of their lines."""

    files: int
    lines: int
    blank: int
    nodes: int
    docstrings: int
    docstring_lines: int
    lower: float
    median: float
    upper: float


@dataclass(frozen=True, slots=True)
class Passed:
    """The Python of the three packages that one call ran: *switches* counts calls that follow one of another file."""

    call: str
    modules: tuple[str, ...]
    functions: int
    calls: int
    switches: int
    folder_switches: int


def sources(root: Path = ROOT, packages: Iterable[str] = PACKAGES) -> list[Source]:
    """Return every file of *packages*, sorted by path."""
    return [
        read_source(path, path.relative_to(root).as_posix())
        for package in packages
        for path in sorted((root / package).rglob("*.py"))
    ]


def read_source(path: Path, name: str) -> Source:
    """Return the counts of one file."""
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    strings = [
        node.body[0]
        for node in nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and ast.get_docstring(node, clean=False) is not None
    ]
    return Source(
        path=name,
        lines=len(text.splitlines()),
        blank=sum(not line.strip() for line in text.splitlines()),
        nodes=len(nodes),
        docstrings=len(strings),
        docstring_lines=sum((string.end_lineno or string.lineno) - string.lineno + 1 for string in strings),
        classes=tuple(node.name for node in nodes if isinstance(node, ast.ClassDef)),
        signatures=tuple(_signatures(tree)),
    )


def _signatures(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the number of parameters and the dotted name of each function."""
    waiting: list[tuple[ast.AST, str, bool]] = [(tree, "", False)]
    while waiting:
        node, outer, in_class = waiting.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                name = outer + child.name
                yield _parameters(child, method=in_class), name
                waiting.append((child, name + ".", False))
            elif isinstance(child, ast.ClassDef):
                waiting.append((child, outer + child.name + ".", True))
            else:
                waiting.append((child, outer, in_class))


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef, *, method: bool) -> int:
    arguments = function.args
    decorators = {node.id for node in function.decorator_list if isinstance(node, ast.Name)}
    bound = method and "staticmethod" not in decorators
    several = (arguments.vararg is not None) + (arguments.kwarg is not None)
    return len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs) + several - bound


def totals(files: Sequence[Source]) -> Totals:
    """Return the sums over *files*."""
    lines = [file.lines for file in files]
    lower, median, upper = statistics.quantiles(lines, n=4, method="inclusive")
    return Totals(
        files=len(files),
        lines=sum(lines),
        blank=sum(file.blank for file in files),
        nodes=sum(file.nodes for file in files),
        docstrings=sum(file.docstrings for file in files),
        docstring_lines=sum(file.docstring_lines for file in files),
        lower=lower,
        median=median,
        upper=upper,
    )


def folders(files: Iterable[Source]) -> dict[str, int]:
    """Return how many files each folder has beside its ``__init__``, the fullest first."""
    counts = Counter(file.folder for file in files if not file.path.endswith("/__init__.py"))
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def long_signatures(files: Iterable[Source], limit: int = PARAMETER_LIMIT) -> list[tuple[int, str, str]]:
    """Return (parameters, name, path) of each function with more than *limit*, the longest first."""
    signatures = ((count, name, file.path) for file in files for count, name in file.signatures if count > limit)
    return sorted(signatures, key=lambda item: (-item[0], item[2], item[1]))


def repeated_classes(files: Iterable[Source]) -> dict[str, list[str]]:
    """Return the class names that are used more than once, and the files of each use."""
    places: dict[str, list[str]] = defaultdict(list)
    for file in files:
        for name in file.classes:
            places[name].append(file.path)
    return {name: paths for name, paths in sorted(places.items()) if len(paths) > 1}


class Tracer:
    """Counts calls into the three packages, in every thread that is started after it was made.

    A thread gets its profile function when it starts, so the tracer stands before the first thread does and counts
    nothing until it is asked to.
    """

    def __init__(self, root: Path = ROOT, packages: Iterable[str] = PACKAGES) -> None:
        self._prefixes = {f"{root / package}/": package for package in packages}
        self._root = len(str(root)) + 1
        self._names: dict[CodeType, str | None] = {}
        self._calls: list[CodeType] | None = None

    def __enter__(self) -> Tracer:
        threading.setprofile(self._event)
        sys.setprofile(self._event)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    @contextmanager
    def following(self, call: str, passed: list[Passed]) -> Iterator[None]:
        """Append to *passed* the Python that the block runs."""
        self._calls = []
        try:
            yield
        finally:
            calls, self._calls = self._calls, None
        files = [name for code in calls if (name := self._names[code]) is not None]
        folders = [name.rpartition("/")[0] for name in files]
        passed.append(
            Passed(
                call=call,
                modules=tuple(sorted(set(files))),
                functions=len(set(calls)),
                calls=len(calls),
                switches=_switches(files),
                folder_switches=_switches(folders),
            )
        )

    def _event(self, frame: FrameType, event: str, argument: object) -> None:
        calls = self._calls
        if calls is None or event != "call":
            return
        code = frame.f_code
        if code not in self._names:
            self._names[code] = self._name_of(code)
        if self._names[code] is not None:
            calls.append(code)

    def _name_of(self, code: CodeType) -> str | None:
        """Return the path of a named function of ours; None for others, and for the parts of one (comprehensions)."""
        if code.co_name.startswith("<") or not code.co_filename.startswith(tuple(self._prefixes)):
            return None
        return code.co_filename[self._root :]


def _switches(places: Sequence[str]) -> int:
    return sum(before != after for before, after in pairwise(places))


def trace() -> list[Passed]:
    """Return what a recall, the same one again, a remember and a turn run: on a file of 20 turns, opened anew."""
    from tellback.memory import Message, open_memory, run_sync
    from tellback.memory.internals import local_available

    if not local_available():
        print("(the extra `local` is not installed: these are figures of a recall by words alone)\n")

    passed: list[Passed] = []
    with tempfile.TemporaryDirectory() as name, Tracer() as tracer:
        path = Path(name) / "turns.db"
        memory = open_memory(path)
        for text in TURNS:
            run_sync(memory.remember_turn("talk", [Message.user(text)]))
        run_sync(memory.close())
        memory = open_memory(path)
        calls: dict[str, Callable[[], Awaitable[Any]]] = {
            "recall, first": lambda: memory.recall(QUESTION),
            "recall, warm": lambda: memory.recall(QUESTION),
            "remember": lambda: memory.remember("The mill was built in 1790."),
            "remember_turn": lambda: memory.remember_turn("talk", [Message.user("The choir meets on Monday.")]),
        }
        try:
            for call, run in calls.items():
                with tracer.following(call, passed):
                    run_sync(run())
        finally:
            run_sync(memory.close())
    return passed


def main(words: Sequence[str] | None = None) -> int:
    """Print what *words* ask for; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.structure")
    parser.add_argument("--trace", action="store_true", help="follow the calls of a recall, a remember and a turn")
    parser.add_argument("--modules", metavar="CALL", help='with --trace: list the modules of one, as "recall, warm"')
    parser.add_argument("--json", type=Path, help="write everything to this file")
    given = parser.parse_args(words)
    files = sources()
    passed = trace() if given.trace else []
    show(files, passed)
    if given.modules is not None:
        modules = next((run.modules for run in passed if run.call == given.modules), None)
        if modules is None:
            parser.error(f"--modules: no call {given.modules!r} was followed")
        print("\n".join(["", *modules]))
    if given.json is not None:
        counted = {
            "packages": {package: asdict(totals(_of(files, package))) for package in PACKAGES},
            "all": asdict(totals(files)),
            "folders": folders(files),
            "long_signatures": long_signatures(files),
            "repeated_classes": repeated_classes(files),
            "trace": [asdict(run) for run in passed],
        }
        given.json.write_text(json.dumps(counted, indent=1) + "\n", "utf-8")
    return 0


def show(files: Sequence[Source], passed: Sequence[Passed]) -> None:
    """Print the tables."""
    columns = ("files", "lines", "blank", "docstrings", "their lines", "tree nodes")
    print(f"{'':12}" + "".join(f"{column:>12}" for column in columns) + f"  {'lines a file, quartiles':>24}")
    for name, part in [*((package, _of(files, package)) for package in PACKAGES), ("all", files)]:
        sums = totals(part)
        counts = (sums.files, sums.lines, sums.blank, sums.docstrings, sums.docstring_lines, sums.nodes)
        quartiles = f"{sums.lower:g} / {sums.median:g} / {sums.upper:g}"
        print(f"{name:12}" + "".join(f"{count:12,}" for count in counts) + f"  {quartiles:>24}")
    counts_by_folder = folders(files)
    full = {folder: count for folder, count in counts_by_folder.items() if count > FOLDER_LIMIT}
    print(f"\nfolders: {len(counts_by_folder)}; with more than {FOLDER_LIMIT} files beside __init__: {len(full)}")
    for folder, count in full.items():
        print(f"  {count:3}  {folder}")
    long = long_signatures(files)
    print(f"\nsignatures of more than {PARAMETER_LIMIT} parameters: {len(long)}")
    for parameters, name, path in long:
        print(f"  {parameters:3}  {name}  ({path})")
    repeated = repeated_classes(files)
    print(f"\nclass names used more than once: {len(repeated)}")
    for name, places in repeated.items():
        print(f"  {name}: {', '.join(places)}")
    if passed:
        columns = ("modules", "functions", "calls", "between files", "between folders")
        print(f"\n{'passed through':16}" + "".join(f"{column:>16}" for column in columns))
        for run in passed:
            figures = (len(run.modules), run.functions, run.calls, run.switches, run.folder_switches)
            print(f"{run.call:16}" + "".join(f"{figure:16,}" for figure in figures))


def _of(files: Iterable[Source], package: str) -> list[Source]:
    return [file for file in files if file.path.startswith(package + "/")]


if __name__ == "__main__":
    raise SystemExit(main())
