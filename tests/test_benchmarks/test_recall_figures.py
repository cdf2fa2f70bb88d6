"""Figures of recall: means, intervals, results as they are kept, and two runs beside each other."""

from __future__ import annotations

import json
from dataclasses import replace
from math import log2
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.metrics import DEPTHS, MEASURES, Answer
from benchmarks.recall.command import write
from benchmarks.recall.compare import compared
from benchmarks.recall.page import page
from benchmarks.recall.results import AnswerRow, Fill, Header, Results, Writer, read_results
from benchmarks.recall.same import sameness
from benchmarks.recall.summary import read_summary, summarised, write_summary
from tellback.memory.internals import bootstrap

HEADER = Header(
    command="python -m benchmarks recall",
    at="2026-01-01T00:00:00+00:00",
    machine="one",
    load=0.5,
    versions={"tellback": "0"},
    settings={"limit": None},
    data={"t": "aa"},
    seed=3,
    systems={key: {"title": key, "version": "", "settings": "", "vectors": ""} for key in ("tellback", "other")},
    tasks={"t": {"title": "T", "status": "seen", "unit": "turn", "note": "", "headline": ["right"]}},
    not_run={"third": "not installed"},
)


def row(system: str, question: str, hits: str, evidence: str = "a", **more: object) -> AnswerRow:
    group = str(more.pop("group", "right"))
    return AnswerRow(
        system,
        "t",
        "corpus",
        question,
        group,
        dict.fromkeys(evidence, 1),
        tuple((id, 1.0) for id in hits),
        2.0,
        **more,  # type: ignore[arg-type]
    )


RESULTS = Results(
    HEADER,
    (
        Fill("tellback", "t", "corpus", 10, 2.0),
        Fill("tellback", "t", "next", 10, 3.0),
        Fill("other", "t", "corpus", 1, 1, "no"),
    ),
    (
        row("tellback", "q1", "abc", confidence=0.9),
        row("tellback", "q2", "xya", confidence=0.8, abstain="other"),
        row("tellback", "q3", "", confidence=0.1, error="it broke"),
        row("tellback", "q4", "abc", group="adversarial", confidence=0.0, abstain="other"),
        row("tellback", "q5", "abc", "", group="absent", confidence=0.0, abstain="nothing"),
        row("other", "q1", "xa"),
        row("other", "q2", "a"),
        row("other", "q3", "xyz"),
    ),
)


def test_any_all_and_share_differ_where_evidence_is_in_part_found() -> None:
    answer = Answer("g", ("x", "a", "y", "b"), {"a": 1, "b": 1, "c": 1})
    assert [round(MEASURES[f"R@{k}"](answer), 3) for k in DEPTHS] == [0, 0.333, 0.667, 0.667, 0.667, 0.667]
    assert [MEASURES[f"any@{k}"](answer) for k in DEPTHS] == [0, 1, 1, 1, 1, 1]
    assert [MEASURES[f"all@{k}"](answer) for k in DEPTHS] == [0] * 6
    assert MEASURES["MRR"](answer) == 0.5
    best = 1 + 1 / log2(3) + 1 / log2(4)
    assert MEASURES["nDCG@10"](answer) == pytest.approx((1 / log2(3) + 1 / log2(5)) / best)


def test_an_interval_is_the_same_for_a_seed_and_holds_the_mean() -> None:
    values = [float(number % 3 == 0) for number in range(90)]
    first, again, other = (bootstrap(values, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    assert first.mean == pytest.approx(1 / 3)
    assert first.low < 1 / 3 < first.high
    assert bootstrap([0.5] * 9, seed=0) == (0.5, 0.5, 0.5)
    assert bootstrap([], seed=0) == (0, 0, 0)


def test_a_bootstrap_by_corpus_is_wider_where_questions_of_a_corpus_are_alike() -> None:
    values, corpora = [0.0] * 50 + [1.0] * 50, ["a"] * 50 + ["b"] * 50
    alone, whole = bootstrap(values, seed=0), bootstrap(values, seed=0, groups=corpora)
    assert (whole.low, whole.high) == (0.0, 1.0)
    assert alone.low > 0.3
    with pytest.raises(ValueError, match="one for each of 100 values"):
        bootstrap(values, seed=0, groups=["a"])


@pytest.mark.parametrize("name", ["run.jsonl", "run.jsonl.gz"])
def test_recall_results_round_trip_through_their_file(tmp_path: Path, name: str) -> None:
    writer = Writer(tmp_path / name)
    for item in (RESULTS.header, *RESULTS.fills, *RESULTS.answers):
        writer.write(item)
    writer.close()
    assert read_results(tmp_path / name) == RESULTS


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ("", "line 1: not the header"),
        ('{"row": "fill"}\n', "line 1: not a row"),
        ('{"row": "header", "format": "tellback-recall-results", "version": 2}\n', "line 1: .*version 1"),
        ('{"row": "other"}\n', "line 1: .*no such row: 'other'"),
        ("{\n", "line 1: not a row"),
    ],
)
def test_an_invalid_recall_results_file_raises_with_its_line(tmp_path: Path, lines: str, complaint: str) -> None:
    (tmp_path / "run.jsonl").write_text(lines)
    with pytest.raises(ValueError, match=complaint):
        read_results(tmp_path / "run.jsonl")


def test_a_question_that_failed_counts_as_not_found() -> None:
    line = summarised(RESULTS).line("tellback", "t")
    assert line is not None
    assert (line.questions, line.errors) == (3, 1)
    assert line.figures["R@1"] == pytest.approx(1 / 3)
    assert line.figures["R@3"] == pytest.approx(2 / 3)


def test_the_summary_headline_excludes_other_groups_which_have_lines_of_their_own() -> None:
    summary = summarised(RESULTS)
    assert [line.group for line in summary.lines if line.system == "tellback"] == ["", "adversarial"]
    assert summary.figure("tellback", "t", "R@1", "adversarial") == 1.0
    assert summary.fills == {"tellback": {"t": 4.0}}


def test_the_difference_to_another_system_is_taken_question_by_question() -> None:
    line = summarised(RESULTS).line("other", "t")
    assert line is not None
    mean, low, high = line.against["R@1"]
    assert mean == pytest.approx((1 - 1) / 3)
    assert (low, high) == (-1.0, 1.0)


def test_abstentions_are_counted_by_reason_and_separately_for_unanswerable_questions() -> None:
    found = {refusal.group: refusal for refusal in summarised(RESULTS).refusals}
    assert {
        group: (refusal.answerable, refusal.questions, refusal.nothing, refusal.other)
        for group, refusal in found.items()
    } == {
        "answerable": (True, 3, 0.0, pytest.approx(1 / 3)),
        "adversarial": (False, 1, 0.0, 1.0),
        "absent": (False, 1, 1.0, 0.0),
    }
    assert found["absent"].by_confidence == 1.0


def test_a_recall_summary_round_trips_and_a_file_of_another_format_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    write_summary(path, summarised(RESULTS))
    again = read_summary(path)
    assert again.figure("tellback", "t", "R@1") == pytest.approx(1 / 3, abs=1e-4)
    assert [refusal.group for refusal in again.refusals] == ["answerable", "adversarial", "absent"]
    path.write_text(json.dumps({"format": "x"}))
    with pytest.raises(ValueError, match="version 1"):
        read_summary(path)


def test_two_runs_are_compared_on_the_questions_they_share() -> None:
    given = compared(RESULTS, RESULTS, ("other", "tellback"))
    line = next(line for line in given.splitlines() if line.startswith("| T |"))
    assert line.split(" | ")[1] == "3"
    assert line.endswith("| 0 | 0 |")  # within ten both find the same two
    assert line.split(" | ")[2] == "+0.000 [-1.000, +1.000]"
    with pytest.raises(ValueError, match="share no question"):
        compared(RESULTS, RESULTS, ("tellback", "nobody"))


def test_runs_with_other_evidence_are_not_compared() -> None:
    changed = replace(RESULTS, answers=(row("tellback", "q1", "abc", "b"),))
    with pytest.raises(ValueError, match="question q1: its evidence is not the same"):
        compared(RESULTS, changed, ("tellback", "tellback"))


def test_a_comparison_says_that_the_data_differ() -> None:
    other = replace(RESULTS, header=replace(HEADER, data={"t": "bb"}))
    assert "- t: aa and bb" in compared(RESULTS, other, ("tellback", "tellback"))


def test_a_run_is_the_same_as_itself_under_another_name_and_at_another_speed() -> None:
    renamed = [replace(item, system="new", ms=9.0) for item in RESULTS.answers if item.system == "tellback"]
    found = sameness(RESULTS, replace(RESULTS, answers=tuple(renamed)), ("tellback", "new"))
    assert (found.questions, found.differences, found.notes) == (5, (), ())


@pytest.mark.parametrize(
    ("changed", "differences"),
    [
        ({"hits": (("a", 1.0), ("c", 1.0), ("b", 1.0))}, ["t / corpus / q1: other ranked ids"]),
        ({"hits": (("b", 1.0), ("a", 1.0), ("c", 1.0))}, ["t / corpus / q1: other ranked ids", "t: other figures"]),
        ({"abstain": "nothing"}, ["t / corpus / q1: other abstention", "t / answerable: other figures"]),
        ({"question": "q9"}, ["t / corpus / q1: only in the first run", "t / corpus / q9: only in the second run"]),
        ({"hits": (("a", 0.5), ("b", 0.4), ("c", 0.3))}, []),
    ],
)
def test_runs_differ_in_ranked_ids_and_figures_but_not_in_scores(
    changed: dict[str, object], differences: list[str]
) -> None:
    first, *rest = RESULTS.answers
    after = replace(RESULTS, answers=(replace(first, **changed), *rest))  # type: ignore[arg-type]
    found = sameness(RESULTS, after, ("tellback", "tellback"))
    assert list(found.differences) == differences
    assert found.notes == (() if differences else ("(scores differ in 1 questions)",))


def test_runs_on_other_data_or_without_a_question_in_common_are_not_the_same() -> None:
    other = replace(RESULTS, header=replace(HEADER, data={"t": "bb"}))
    assert sameness(RESULTS, other, ("tellback", "tellback")).differences == ("the data of the runs",)
    assert "share no question" in str(sameness(RESULTS, RESULTS, ("nobody", "none")))


def test_the_command_says_by_its_exit_code_whether_two_runs_are_the_same(tmp_path: Path) -> None:
    before, after = tmp_path / "before.jsonl", tmp_path / "after.jsonl.gz"
    write(before, HEADER, RESULTS.answers)
    write(after, HEADER, [replace(item, hits=item.hits[1:]) for item in RESULTS.answers])
    assert main(["compare", "--same", str(before), str(before)]) == 0
    assert main(["compare", "--same", str(before), str(after)]) == 1


def test_the_picture_of_a_run_is_small_and_has_colours_for_light_and_dark(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from benchmarks.recall.plot import draw

    draw(summarised(RESULTS), tmp_path / "p.svg")
    picture = (tmp_path / "p.svg").read_text()
    assert "prefers-color-scheme:dark" in picture
    assert ">T<" in picture
    assert len(picture) < 60_000
    draw(summarised(RESULTS), tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_text() == picture


def test_the_committed_recall_page_equals_the_page_of_the_committed_figures() -> None:
    root = Path(__file__).resolve().parents[2]
    committed = (root / "docs" / "appendix" / "recall-measured.md").read_text("utf-8")
    assert committed == page(read_summary(root / "benchmarks" / "results" / "recall.json"))
