"""``python -m benchmarks recall`` whole, on a few lines; the systems; and floors on a slice of the real data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.metrics import MEASURES, Answer, mean
from benchmarks.recall.locomo_tasks import ANSWERABLE, OFF_TOPIC, locomo_tasks
from benchmarks.recall.results import AnswerRow, read_results
from benchmarks.recall.run import run_task
from benchmarks.recall.summary import read_summary
from benchmarks.recall.system import BY_KEY, USUAL, Answered, Contender, Options, missing, opened
from benchmarks.recall.task import Asked, Corpus, Task
from tellback.memory import Memory
from tellback.memory.internals import local_available

SAID = datetime(2026, 3, 1, tzinfo=UTC)
ITEMS = tuple(
    Memory(text, id=f"m{number}", kind="turn", speaker=speaker, session="s", sequence=number, occurred_at=SAID)
    for number, (speaker, text) in enumerate(
        [
            ("Ana", "The tram was late again this morning."),
            ("Ben", "I bought a cello from a violin maker."),
            ("Ana", "It rained the whole weekend."),
            ("Ben", "My landlord raised the rent."),
        ]
    )
)
QUESTION = Asked("q", "Which cello did Ben buy?", "all", {"m1": 1})
CORPUS = Corpus("talk", ITEMS, (QUESTION, Asked("x", "What is the capital of Mongolia?", "absent", {})))
TASK = Task("talk", "Talk", "yours", "turn", lambda: [CORPUS], headline=("all",), sessions="Talk, sessions")


@pytest.mark.parametrize("key", USUAL)
def test_a_benchmarked_system_returns_at_most_k_distinct_known_ids_by_descending_score(
    tmp_path: Path, key: str
) -> None:
    if (why := missing(BY_KEY[key])) is not None:
        pytest.skip(why)
    system = opened(BY_KEY[key], tmp_path, Options())
    system.fill(CORPUS)
    for k in (1, 3, 50):
        ids = [id for id, _ in system.ask(QUESTION, k).hits]
        assert len(ids) == len(set(ids)) <= k
        assert set(ids) <= {item.id for item in ITEMS}
    scores = [score for _, score in system.ask(QUESTION, 50).hits]
    assert scores == sorted(scores, reverse=True)
    system.close()


@pytest.mark.parametrize("key", [key for key in USUAL if key not in ("last", "random")])
def test_a_benchmarked_system_finds_the_item_with_the_words_of_the_question(tmp_path: Path, key: str) -> None:
    if (why := missing(BY_KEY[key])) is not None:
        pytest.skip(why)
    system = opened(BY_KEY[key], tmp_path, Options())
    system.fill(CORPUS)
    assert system.ask(QUESTION, 3).hits[0][0] == "m1"
    system.close()


def test_a_run_gives_a_row_for_each_question_and_one_by_session() -> None:
    rows = list(run_task(BY_KEY["tellback-words"], TASK, Options()))
    answers = {(row.task, row.question): row for row in rows if isinstance(row, AnswerRow)}
    assert set(answers) == {("talk", "q"), ("talk-sessions", "q"), ("talk", "x")}
    assert answers["talk-sessions", "q"].evidence == {"s": 1}
    assert answers["talk", "x"].abstain == "nothing"


def test_a_system_without_abstention_gets_no_unanswerable_questions() -> None:
    rows = list(run_task(BY_KEY["grep"], TASK, Options()))
    assert {row.question for row in rows if isinstance(row, AnswerRow)} == {"q"}


class Failing:
    """Fails at the second question."""

    def __init__(self, folder: Path, options: Options) -> None:
        self._asked = 0

    def fill(self, corpus: Corpus) -> None: ...

    def ask(self, asked: Asked, k: int) -> Answered:
        self._asked += 1
        if self._asked > 1:
            raise RuntimeError("it broke")
        return Answered(())

    def close(self) -> None: ...


def test_a_question_that_fails_is_a_row_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.recall.run.opened", lambda *_: Failing(Path(), Options()))
    contender = Contender("failing", "Failing", "", "", "", "")
    rows = [each for each in run_task(contender, TASK, Options()) if isinstance(each, AnswerRow)]
    assert [(row.question, row.error, row.hits) for row in rows] == [("q", "RuntimeError: it broke", ())] * 2


@pytest.mark.slow
def test_the_recall_command_measures_reports_and_compares_a_data_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "memories.jsonl").write_text(
        "".join(f'{{"id": "{item.id}", "text": "{item.text}", "speaker": "{item.speaker}"}}\n' for item in ITEMS)
    )
    (folder / "questions.jsonl").write_text('{"question": "Which cello did Ben buy?", "evidence": ["m1"]}\n')
    out, figures, docs = tmp_path / "run.jsonl.gz", tmp_path / "run.json", tmp_path / "docs"
    words = ["recall", "--sets", "", "--folder", str(folder), "--systems", "tellback-words,grep,last", "--no-footprint"]
    assert main([*words, "--out", str(out), "--json", str(figures)]) == 0
    assert "mine" in capsys.readouterr().out
    header = read_results(out).header
    assert header.command == (
        "python -m benchmarks recall --sets '' --folder DIR --systems tellback-words,grep,last --no-footprint"
        " --out run.jsonl.gz --json run.json"
    )
    assert set(header.data) == {"folder-mine"}
    assert read_summary(figures).figure("grep", "folder-mine", "R@1") == 1.0
    assert main(["recall-report", str(out), "--docs", str(docs), "--no-plot"]) == 0
    page = (docs / "recall-measured.md").read_text()
    assert "| task | data | unit | n | Tellback, no vectors | grep | last n |" in page
    assert "| mine | yours | memory | 1 | 1.000 / 1.000 | 1.000 / 1.000 | .000 / 1.000 |" in page
    assert main(["compare", str(out), str(out), "--system", "last:tellback-words"]) == 0
    assert "+1.000" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--sets", "typo"], "no data set typo"),
        (["--sets", ""], "nothing to measure"),
        (["--sets", "updates", "--systems", "typo"], "no system typo"),
        (["--sets", "", "--folder", "nowhere"], "there is no such file"),
    ],
)
def test_the_recall_command_rejects_invalid_arguments_before_any_measurement(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["recall", *words])
    assert complaint in capsys.readouterr().err


@pytest.mark.slow
def test_the_floors_of_recall_hold_on_one_conversation(data_dir: Path) -> None:
    """Floors of quality on a slice of the development data: what is below is a defect, whatever the speed."""
    turns = next(task for task in locomo_tasks(data_dir) if task.key == "locomo-turns")
    (first, *_) = turns.corpora()
    kept = tuple(question for question in first.questions if question.group in (*ANSWERABLE, OFF_TOPIC))
    key = "tellback" if local_available() else "tellback-words"
    rows = run_task(BY_KEY[key], _only(turns, replace(first, questions=kept)), Options())
    answers = [row for row in rows if isinstance(row, AnswerRow)]
    right = [answer.answer() for answer in answers if answer.task == turns.key and answer.evidence]
    by_session = [answer.answer() for answer in answers if answer.task != turns.key]
    floors = (
        {"R@1": 0.50, "R@10": 0.80, "MRR": 0.66} if key == "tellback" else {"R@1": 0.48, "R@10": 0.785, "MRR": 0.64}
    )
    broken = {name: _mean(right, name) for name, floor in floors.items() if _mean(right, name) < floor}
    assert broken == {}
    assert (_mean(by_session, "R@1") >= 0.66, _mean(by_session, "R@5") >= 0.87) == (True, True)
    strange = [answer for answer in answers if answer.group == OFF_TOPIC]
    assert len(strange) == 40
    assert sum(each.abstain is not None for each in strange) >= 36


def test_a_run_and_the_next_give_the_same_hits_with_the_same_scores(data_dir: Path) -> None:
    turns = next(task for task in locomo_tasks(data_dir) if task.key == "locomo-turns")
    (whole, *_) = turns.corpora()
    first = replace(whole, items=whole.items[:150])
    each, other = (
        [
            row.hits
            for row in run_task(BY_KEY["tellback-words"], _only(turns, first), Options(), limit=3, absent=False)
            if isinstance(row, AnswerRow)
        ]
        for _ in range(2)
    )
    assert each == other


def _only(task: Task, corpus: Corpus) -> Task:
    return replace(task, corpora=lambda: [corpus])


def _mean(answers: Sequence[Answer], name: str) -> float:
    return mean([MEASURES[name](answer) for answer in answers])
