"""The bench of memory systems, whole: run, killed and resumed, shown, compared, proved; adapters keep the contract."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.__main__ import main
from benchmarks.memory.answer import CURVE, DEPTH, context_of
from benchmarks.memory.contract import violations
from benchmarks.memory.data.catalogue import read_data
from benchmarks.memory.data.dataset import Asked, Corpus, DataError
from benchmarks.memory.data.json_lines import json_lines
from benchmarks.memory.embedding_server import EmbeddingServer
from benchmarks.memory.figures import HELD, LET_THROUGH, WRONGLY, mean_of, read_results
from benchmarks.memory.process import is_installed
from benchmarks.memory.prompts import read_prompts
from benchmarks.memory.protocol import Found, Hit, Item, Question, Settings
from benchmarks.memory.registry import BASELINES, ENTRIES, entry_of
from benchmarks.memory.run import RunOptions, retrieve
from benchmarks.memory.schema import json_schema
from benchmarks.memory.stage_files import digest, read_stage
from benchmarks.memory.systems.baselines import Baseline
from benchmarks.memory.tables import judge_table, tables_of
from tellback.agent.testing import OpenAIServer, Reply
from tellback.memory import HashingEmbedder, OpenAICompatibleEmbedder, run_sync
from tellback.memory.internals import local_available
from tests.support.extraction_double import ExtractionDouble

pytestmark = pytest.mark.slow

MEMORIES = (
    {"id": "m1", "text": "The spare key is with Ben.", "speaker": "Ana", "occurred_at": "2026-01-01T10:00:00Z"},
    {"id": "m2", "text": "My landlord is called Ruiz.", "speaker": "Ana", "occurred_at": "2026-01-02T10:00:00Z"},
    {
        "id": "m3",
        "text": "The spare key is under the pot now.",
        "speaker": "Ana",
        "occurred_at": "2026-02-01T10:00:00Z",
    },
    {"id": "m4", "text": "It rained the whole weekend.", "speaker": "Ben", "occurred_at": "2026-02-02T10:00:00Z"},
)
QUESTIONS = (
    {
        "question": "Where is the spare key now?",
        "evidence": ["m3"],
        "stale": ["m1"],
        "group": "now",
        "answer": "the pot",
    },
    {"question": "Who is the landlord?", "evidence": ["m2"], "answer": "Ruiz"},
    {"question": "What is the capital of Mongolia?", "evidence": [], "group": "absent"},
)
OWN = "benchmarks.memory.example:RareWords"


FACTS = ("spare key: under the pot", "nothing of this was told", "The spare key is under a pot now")


class Loud(Baseline):
    """A system that fails on one question, and answers with facts of its own and with the item that one is of."""

    def search(self, question: Question, k: int, tokens: int) -> Found:
        if "landlord" in question.text:
            raise RuntimeError("no landlord here")
        return Found([*(Hit(text=text) for text in FACTS), Hit("m3")])


class Twice(Baseline):
    """A system that breaks the contract: hits twice, of unknown ids, by rising scores."""

    def ranked(self, question: Question, k: int) -> Sequence[Item]:
        return [Item("m9", ""), Item("m9", "")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data = tmp_path / "mine"
    data.mkdir()
    for name, rows in (("memories", MEMORIES), ("questions", QUESTIONS)):
        (data / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return data


def run(folder: Path, out: Path, systems: str, *more: str) -> int:
    return main(["memory", "run", "--sets", str(folder), "--out", str(out), "--systems", systems, *more])


@pytest.mark.parametrize("key", [*BASELINES, OWN])
def test_a_baseline_keeps_the_contract_of_a_memory_system(key: str, tmp_path: Path) -> None:
    entry = entry_of(key)
    if not entry.shared:
        assert list(violations(entry, Settings(tmp_path))) == []
        return
    server = EmbeddingServer(HashingEmbedder())
    assert list(violations(entry, server.settings(tmp_path))) == []
    server.close()


def test_what_breaks_the_contract_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    lines = list(violations(entry_of("test_memory_bench:Twice"), Settings(tmp_path)))
    assert any("found twice" in line for line in lines)
    assert any("ids of no item" in line for line in lines)


def test_two_runs_are_equal_and_a_killed_one_goes_on_to_the_same_result(folder: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    systems = f"bm25,oracle,dont-know,{OWN}"
    for out in (first, second):
        assert run(folder, out, systems) == 0
    path = second / "mine" / "bm25" / "retrieve.jsonl"
    path.write_bytes(path.read_bytes()[:-40])  # as a kill leaves it, in the middle of a row
    assert run(folder, second, systems) == 0
    for file in sorted(first.glob("*/*/*.jsonl")):
        again = second / file.relative_to(first)
        assert digest(read_stage(file)[1]) == digest(read_stage(again)[1])
    tables = [tables_of(read_results(out, json_lines(folder)), "bm25") for out in (first, second)]
    assert [table for table in tables[0] if table.title != "What it costs"] == [
        table for table in tables[1] if table.title != "What it costs"
    ]
    for out in (first, second):
        assert main(["memory", "check", "--sets", str(folder), "--out", str(out)]) == 0


def test_figures_follow_from_gold_stale_and_unanswerable_questions(folder: Path, tmp_path: Path) -> None:
    run(folder, tmp_path, "oracle,dont-know,last")
    oracle, silent, last = (
        next(result for result in read_results(tmp_path, json_lines(folder)) if result.key == key)
        for key in ("oracle", "dont-know", "last")
    )
    assert oracle.values["first"] == {"/q0": 1.0, "/q1": 1.0}
    assert (oracle.values[HELD], last.values[HELD]) == ({"/q0": 0.0}, {"/q0": 0.0})
    assert (silent.values[WRONGLY]["/q1"], silent.values[LET_THROUGH]) == (1.0, {"/q2": 0.0})
    assert last.of_kind("first", "now") == {"/q0": 0.0}
    assert oracle.values["answer right"] == {"/q0": 1.0, "/q1": 1.0}
    assert (oracle.values["answered anyway"], silent.values["answered anyway"]) == ({"/q2": 0.0}, {"/q2": 0.0})


def test_facts_are_attributed_and_a_failing_system_is_named(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    run(folder, tmp_path, "bm25,test_memory_bench:Loud")
    loud = next(one for one in read_results(tmp_path, json_lines(folder)) if one.key.endswith("Loud"))
    assert loud.found["/q0"]["hits"] == ["m3", "", "", ""]
    assert "pot" in loud.found["/q0"]["facts"]["3"]
    assert loud.found["/q0"]["facts"]["0"] == "spare key: under the pot"
    assert loud.values["first"]["/q1"] == 0.0
    assert main(["memory", "show", "--sets", str(folder), "--out", str(tmp_path)]) == 0
    assert "RuntimeError: no landlord here" in capsys.readouterr().out


def test_a_changed_input_is_noticed_and_a_check_finds_what_is_wrong(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    run(folder, out, "bm25")
    path = out / "mine" / "bm25" / "retrieve.jsonl"
    lines = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join([*lines[:-1], '{"question": "q", "hits": []}\n']), "utf-8")
    assert main(["memory", "check", "--sets", str(folder), "--out", str(out)]) == 1
    said = capsys.readouterr().out
    assert "Field required" in said
    assert "made from rows that do not lie beside it" in said
    path.write_text("".join(lines), "utf-8")
    answers = path.with_name("answer.jsonl")
    said_before = answers.read_text("utf-8")
    answers.write_text(said_before.replace('"quoted": "m2"', '"quoted": "m4"'), "utf-8")
    assert main(["memory", "check", "--sets", str(folder), "--out", str(out)]) == 1
    assert "rows are not what its input and the recorded calls give" in capsys.readouterr().out
    answers.write_text(said_before, "utf-8")
    assert main(["memory", "check", "--sets", str(folder), "--out", str(out)]) == 0
    with (folder / "memories.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"id": "m5", "text": "A new one."}\n')
    with pytest.raises(SystemExit):
        run(folder, out, "bm25")
    assert "--again makes it anew" in capsys.readouterr().err
    assert run(folder, out, "bm25", "--again") == 0


def test_the_page_needs_nothing_else_and_names_every_system(folder: Path, tmp_path: Path) -> None:
    run(folder, tmp_path, f"full-context,bm25,{OWN}")
    file = tmp_path / "page.html"
    assert main(["memory", "page", "--sets", str(folder), "--out", str(tmp_path), "--file", str(file)]) == 0
    text = file.read_text("utf-8")
    assert "RareWords" in text
    assert "basic-memory: 0.24 needs Python 3.12" in text
    assert not any(foreign in text for foreign in ("http://", "https://", "src=", "@import"))
    assert "### What is found" in file.with_suffix(".md").read_text("utf-8")


def test_two_systems_are_compared_question_by_question(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(folder, tmp_path, "last,oracle")
    assert main(["memory", "compare", "last", "oracle", "--sets", str(folder), "--out", str(tmp_path)]) == 0
    assert "2 → 1: Where is the spare key now?" in capsys.readouterr().out


def test_the_shared_embedder_embeds_a_text_once_even_if_its_run_was_killed(tmp_path: Path) -> None:
    class Counting(HashingEmbedder):
        asked: ClassVar[list[str]] = []

        async def embed(
            self, texts: Sequence[str], kind: Literal["document", "query"] = "document"
        ) -> NDArray[np.float32]:
            self.asked.extend(texts)
            return await super().embed(texts, kind)

    server = EmbeddingServer(Counting(), folder=tmp_path)
    first = server.vectors(["a red boat", "a blue car", "a red boat"])
    server.close()
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-1])  # as a kill leaves it
    server = EmbeddingServer(Counting(), folder=tmp_path)
    assert (server.vectors(["a red boat", "a blue car", "a red boat"]) == first).all()
    server.close()
    assert Counting.asked == ["a red boat", "a blue car", "a blue car"]


def test_the_shared_embedder_speaks_the_format_of_openai() -> None:
    server = EmbeddingServer(HashingEmbedder())
    texts = ["a red boat", "a blue car"]
    served = run_sync(OpenAICompatibleEmbedder(server.url, server.name).embed(texts))
    assert (served == server.vectors(texts)).all()
    server.close()


def test_the_published_schema_is_that_of_the_rows() -> None:
    published = Path(json_lines.__code__.co_filename).parents[1] / "schema.json"
    assert json.loads(published.read_text("utf-8")) == json_schema()


def test_a_model_is_recorded_replayed_without_a_key_and_kept_within_its_budget(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    run(folder, out, "bm25", "--stages", "retrieve")
    model = ("--stages", "answer,judge", "--reader", "openai:tiny", "--judge", "openai:strict", "--price", "1000,1000")
    answers = [Reply("Under the pot."), Reply("I don't know."), Reply("No information available.")]
    verdicts = [Reply(text) for text in ("Yes.", "yes", "no", "No.", "no", "no", "yes", "yes", "yes")]
    with OpenAIServer(*answers, *verdicts) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        assert run(folder, out, "bm25", *model, "--budget", "0.1") == 1
        assert server.requests == []  # it was estimated before the first call
        assert "answer by openai:tiny costs at most" in capsys.readouterr().out
        assert run(folder, out, "bm25", *model, "--budget", "100") == 0
        assert len(server.requests) == 12
    folder_of_run = out / "mine" / "bm25"
    files = [folder_of_run / name for name in ("answer-openai-tiny.jsonl", "judge-openai-tiny-openai-strict.jsonl")]
    rows = {row["question"]: row for row in read_stage(files[1])[1]}
    assert [rows[id]["right"] for id in ("/q0", "/q1", "/q2")] == [1.0, 0.0, 1.0]
    assert rows["/q0"]["agree"] == pytest.approx(2 / 3)
    said = [file.read_bytes().partition(b"\n")[2] for file in files]  # all but the header, which has the time
    for file in files:
        file.unlink()
    monkeypatch.delenv("OPENAI_BASE_URL")
    assert run(folder, out, "bm25", *model, "--replay") == 0
    assert [file.read_bytes().partition(b"\n")[2] for file in files] == said
    assert main(["memory", "check", "--sets", str(folder), "--out", str(out)]) == 0
    with pytest.raises(SystemExit):
        run(folder, out, "bm25", *model)
    assert "--budget is needed with a model" in capsys.readouterr().err


def test_every_reader_gets_equal_k_and_equal_tokens(folder: Path, tmp_path: Path) -> None:
    data = json_lines(folder)
    row = {"question": "/q0", "hits": ["m1", "m2", "m3", "m4"], "sizes": [10, 10, 30, 1]}

    def shown(key: str, k: int, tokens: int) -> list[str]:
        return [id for id, _ in context_of(data, row, entry_of(key), k, tokens)]

    assert shown("bm25", 3, 1_000) == ["m1", "m2", "m3"]
    assert shown("bm25", 10, 25) == ["m1", "m2"]
    assert shown("full-context", 1, 1) == ["m1", "m2", "m3", "m4"]


def test_the_reader_answers_within_each_budget_of_the_curve(folder: Path, tmp_path: Path) -> None:
    run(folder, tmp_path, "oracle,full-context")
    oracle, whole = sorted(read_results(tmp_path, json_lines(folder)), key=lambda result: result.whole)
    assert dict(oracle.right_curve()) == dict.fromkeys(CURVE, 1.0)
    assert dict(whole.right_curve()) == {}  # it is not cut
    rows = read_stage(tmp_path / "mine" / "oracle" / "answer.jsonl")[1]
    assert {(row["k"], row["tokens"]) for row in rows} == {(10, 1_000), *((DEPTH, budget) for budget in CURVE)}
    assert run(folder, tmp_path, "oracle", "--curve", "5", "--again") == 0
    (oracle, *_) = (one for one in read_results(tmp_path, json_lines(folder)) if one.key == "oracle")
    assert dict(oracle.right_curve()) == {5: 0.0}  # no line is so short


def test_judges_are_compared_and_pairs_are_asked_in_both_orders(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(folder, tmp_path, "last", "-k", "1")
    run(folder, tmp_path, "oracle")
    three = lambda *texts: [Reply(text) for text in texts for _ in range(3)]  # noqa: E731
    with OpenAIServer(*three("yes", "no", "yes")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        judge = ("--stages", "judge", "--judge", "openai:strict", "--budget", "1")
        assert run(folder, tmp_path, "oracle", "--curve", "", "--stages", "answer", "--again") == 0
        assert run(folder, tmp_path, "oracle", *judge) == 0
    oracle = next(one for one in read_results(tmp_path, json_lines(folder)) if one.key == "oracle")
    (table,) = judge_table([oracle])
    assert table.rows[0] == ("none, openai:strict", "3", ".667", ".000")
    assert table.rows[1] == ("openai:strict, with itself in its repeats", "3", "1.000", "")
    pair = ["memory", "compare", "last", "oracle", "--sets", str(folder), "--out", str(tmp_path)]
    pair += ["--pairs", "openai:pair", "--budget", "1"]
    with OpenAIServer(*map(Reply, "211100")) as server:  # the second turns with the order
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        assert main(pair) == 0
        assert len(server.requests) == 6
    said = capsys.readouterr().out
    assert "1 better, 0 worse, 1 even, 1 turned with the order" in said
    assert "the first response was named in 0.75 of choices" in said
    assert main([*pair[:-2], "--replay"]) == 0
    assert "1 better, 0 worse, 1 even, 1 turned with the order" in capsys.readouterr().out


def test_prompts_are_read_from_a_file_and_the_official_judge_from_its_own_script(tmp_path: Path) -> None:
    asked = Asked(Question("q", "Where {answer}?", "2026-03-01"), "now", {"m1": 1}, answer="here")
    templates = {"reader": "{context}|{question}|{at}", "judge": {"": "{answer}={response}?", "unanswerable": "-"}}
    (tmp_path / "mine.json").write_text(json.dumps({**templates, "right": "CORRECT"}), "utf-8")
    mine = read_prompts(tmp_path / "mine.json")
    assert mine.reader(asked, ["a line"]) == "[1] a line|Where {answer}?|2026-03-01"
    assert mine.judge(asked, "there") == "here=there?"
    assert mine.judge(replace(asked, answerable=False), "there") == "-"
    script = "import no_such_module\ndef get_anscheck_prompt(task, question, answer, response, abstention):\n"
    (tmp_path / "evaluate_qa.py").write_text(
        script + "    return f'{task} {answer} {response} {abstention}'\n", "utf-8"
    )
    assert read_prompts(tmp_path / "evaluate_qa.py").judge(asked, "there") == "now here there False"
    (tmp_path / "mine.json").write_text('{"judge": {"now": "?"}}', "utf-8")
    with pytest.raises(DataError, match="unanswerable"):
        read_prompts(tmp_path / "mine.json")


@pytest.mark.slow
def test_the_floors_of_recall_hold_on_one_conversation(data_dir: Path, tmp_path: Path) -> None:
    """Floors of quality on a slice of the development data: what is below is a defect, whatever the speed."""
    whole = read_data("locomo", data_dir)
    (first, *_) = whole.corpora
    absent = [
        replace(one, question=replace(one.question, id=f"x{number}"), gold={}, answerable=False)
        for number, one in enumerate(random.Random(1).sample(read_data("squad", data_dir).corpora[0].questions, 40))
    ]
    kept = [asked for asked in first.questions if asked.kind not in whole.drops]
    data = replace(whole, corpora=[Corpus(first.name, first.items, [*kept, *absent])])
    key = "tellback" if local_available() else "tellback-words"
    retrieve(data, entry_of(key), tmp_path, RunOptions(), None, print)
    (result,) = read_results(tmp_path, data)
    means = {name: mean_of(result.values[name]).mean for name in ("first", "R@10", "MRR", "session any@5", LET_THROUGH)}
    floors = {"first": 0.52, "R@10": 0.80, "MRR": 0.66, "session any@5": 0.87}
    assert {name: means[name] for name, floor in floors.items() if means[name] < floor} == {}
    assert means[LET_THROUGH] <= 0.1


@pytest.mark.slow
@pytest.mark.parametrize("key", [entry.key for entry in ENTRIES if entry.packages])
def test_a_foreign_system_keeps_the_contract_in_an_environment_of_its_own(key: str, tmp_path: Path) -> None:
    """Where BENCH_ENVIRONMENTS names a folder with its environment; nothing is installed by a test."""
    entry = entry_of(key)
    if not is_installed(entry.packages):
        pytest.skip(f"no environment with {', '.join(entry.packages)}: a run of the bench makes it")
    server = EmbeddingServer(HashingEmbedder())
    with ExtractionDouble(server) as double:
        settings = server.settings(tmp_path)
        if entry.not_measured:  # it needs a model
            settings = replace(settings, embedder=double.url)
        assert list(violations(entry, settings)) == []
        assert bool(double.asked) == bool(entry.not_measured)
    server.close()
