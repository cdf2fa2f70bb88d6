"""Figures on the code's structure: counts of a file, and the modules that a call passes through."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.support.structure import (
    Passed,
    Tracer,
    folders,
    long_signatures,
    main,
    read_source,
    repeated_classes,
    sources,
    totals,
)

CODE = '''"""A docstring
of two lines."""

class A:
    def long(self, a, b, /, c, *, d=1, **rest):
        """One line."""

        def inner(x, *more): ...

    @staticmethod
    def free(a): ...

    @classmethod
    def made(cls, a): ...
'''


def written(root: Path, **files: str) -> Path:
    for name, code in files.items():
        path = root / "p" / (name.replace("__in__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
    return root


def test_a_file_is_counted_by_its_syntax_tree(tmp_path: Path) -> None:
    source = read_source(written(tmp_path, a=CODE) / "p" / "a.py", "p/a.py")
    assert (source.lines, source.blank, source.docstrings, source.docstring_lines) == (14, 4, 2, 3)
    assert (source.folder, source.classes) == ("p", ("A",))
    assert dict(reversed(pair) for pair in source.signatures) == {
        "A.long": 5,
        "A.long.inner": 2,
        "A.free": 1,
        "A.made": 1,
    }


def test_folders_signatures_and_class_names_are_counted_over_all_files(tmp_path: Path) -> None:
    root = written(tmp_path, __init__="", a=CODE, b="class A: ...\n", sub__in__c="x = 1\n")
    files = sources(root, ["p"])
    assert folders(files) == {"p": 2, "p/sub": 1}
    assert long_signatures(files, limit=4) == [(5, "A.long", "p/a.py")]
    assert repeated_classes(files) == {"A": ["p/a.py", "p/b.py"]}
    assert (totals(files).files, totals(files).lines, totals(files).median) == (4, 16, 1)


def test_the_tracer_follows_calls_in_every_thread_and_only_within_following(tmp_path: Path) -> None:
    seen = "def one(): return two()\ndef two(): return [1 for _ in 'ab']\n"
    root = written(tmp_path, seen=seen, other="def f(): ...\n")
    spaces: dict[str, dict] = {}
    for name in ("seen", "other"):
        path = root / "p" / f"{name}.py"
        exec(compile(path.read_text(), str(path), "exec"), spaces.setdefault(name, {}))
    found: list[Passed] = []
    with Tracer(root, ["p"]) as tracer:
        spaces["other"]["f"]()
        with tracer.following("a call", found):
            thread = threading.Thread(target=spaces["seen"]["one"])
            thread.start()
            thread.join()
            spaces["other"]["f"]()
    assert found == [Passed("a call", ("p/other.py", "p/seen.py"), 3, 3, 1, 0)]


@pytest.mark.slow
def test_the_command_prints_the_figures_of_this_project(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["--json", str(tmp_path / "figures.json")]) == 0
    assert "signatures of more than 10 parameters" in capsys.readouterr().out
    assert (tmp_path / "figures.json").exists()
