"""The speed of recall: generated turns, small runs of each measure, processes in turns. No time is asserted."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.child import in_turns
from benchmarks.figure import Figure
from benchmarks.recall_speed.texts import own_turns, questions, turns
from benchmarks.recall_speed.worker import MEASURES


def test_benchmark_turns_beyond_the_data_are_varied_repeats_in_sessions_of_their_own(data_dir: Path) -> None:
    own = own_turns(data_dir)
    items = list(turns(data_dir, own + 500, 1))
    assert len(items) == own + 500
    assert [turn.text for turn in items[:own]] == [turn.text for turn in turns(data_dir, own, 2)]
    first, again = {turn.session for turn in items[:own]}, {turn.session for turn in items[own:]}
    assert first.isdisjoint(again)
    changed = sum(item.text != other.text for item, other in zip(items[own:], items, strict=False))
    assert 150 < changed < 350


@pytest.mark.slow
def test_the_same_seed_gives_the_same_turns_and_questions(data_dir: Path) -> None:
    own = own_turns(data_dir)
    first, again, other = (list(turns(data_dir, own + 50, seed)) for seed in (1, 1, 2))
    assert first == again != other
    assert questions(data_dir, 5, 1) == questions(data_dir, 5, 1) != questions(data_dir, 5, 2)


@pytest.mark.slow
def test_each_speed_measure_reports_its_times_and_sizes(data_dir: Path, tmp_path: Path) -> None:
    file = str(tmp_path / "m.db")
    values = {name: asyncio.run(measure(file, data_dir, 300, 1)) for name, measure in MEASURES.items()}  # type: ignore[arg-type]
    assert set(values["fill"]) == {"seconds", "first", "last", "mb"}
    assert len(values["warm"]["times"]) == 200
    assert set(values["memory"]) == {"core", "index"}
    assert len(values["single"]["remember"]) == len(values["single"]["upsert"])
    assert all(value > 0 for value in (values["fill"]["seconds"], values["fill"]["mb"], *values["warm"]["times"]))


def test_processes_run_in_turns_and_the_first_round_is_not_counted() -> None:
    def command(code: str) -> tuple[str, ...]:
        return (sys.executable, "-c", code)

    found = in_turns({"json": command("import json"), "says": command("print(1)")}, rounds=2, seed=0)
    assert {name: len(item.seconds) for name, item in found.items()} == {"json": 2, "says": 2}
    assert all(0 < first <= end for one in found.values() for first, end in zip(one.first, one.seconds, strict=True))
    commands = {"broken": command("import no_such_module"), "json": command("import json")}
    with pytest.raises(RuntimeError, match=r"broken: .*no_such_module"):
        in_turns(commands, rounds=1, seed=0)
    complaints: list[str] = []
    left = in_turns(commands, rounds=1, seed=0, failed=lambda name, why: complaints.append(f"{name}: {why}"))
    assert list(left) == ["json"]
    assert complaints == ["broken: ModuleNotFoundError: No module named 'no_such_module'"]


def test_a_figure_meets_an_upper_or_a_lower_bound() -> None:
    assert [Figure("", 0, "×", 2.0, bound=bound).met for bound in (3.0, 1.0, None)] == [True, False, None]
    assert Figure("", 0, "×", 2.0, bound=1.0, least=True).met is True


@pytest.mark.parametrize(
    ("words", "complaint"), [(["--data", "nowhere"], "no data set locomo"), (["--sizes", "10"], "1000 turns or more")]
)
def test_a_bad_argument_is_refused_before_anything_runs(
    words: list[str], complaint: str, data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = words if "--data" in words else ["--data", str(data_dir), *words]
    with pytest.raises(SystemExit):
        main(["recall-speed", *given])
    assert complaint in capsys.readouterr().err
