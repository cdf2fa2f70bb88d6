"""``tellback eval``: a table, one JSON object, other embedders and settings, and refusals in one line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tellback.agent.assistant.cli.app import run_command_line
from tellback.agent.assistant.config import AssistantSettings, ConfigurationError
from tellback.agent.assistant.wiring import changed_recall_settings, make_named_embedder
from tellback.memory import RecallSettings, open_memory, run_sync

THINGS = ("cello", "harbour", "walnut", "tractor", "umbrella", "lighthouse", "plumber", "violet", "marble", "kettle")
COLOURS = ("blue", "grey", "yellow", "purple", "orange", "black", "white", "pink", "brown", "green")
PLACES = ("Lisbon", "Oslo", "Graz", "Ghent", "Leeds", "Turin", "Porto", "Lyon", "Vienna", "Bergen")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("filled") / "m.db"


@pytest.fixture
def file(filled: Path, tmp_path: Path) -> Path:
    """A copy of one memory file, which the first test fills: embedding takes the time."""
    if not filled.exists():
        memory = open_memory(filled)
        run_sync(
            memory.remember_many(
                f"The {THINGS[number % 10]} of {PLACES[(3 * number + number // 10) % 10]} "
                f"was {COLOURS[(7 * number + number // 10) % 10]}."
                for number in range(30)
            )
        )
        run_sync(memory.close())
    return Path(shutil.copy(filled, tmp_path))


def asked(path: Path, *words: str) -> int:
    return run_command_line(["--memory", str(path), "eval", *words])


@pytest.mark.slow
def test_eval_json_has_a_line_for_each_way_of_recall_and_kind_of_question(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked(file, "--questions", "12", "--with", "hashing", "--setting", "told.text=1", "--json") == 0
    captured = capsys.readouterr()
    parsed = json.loads(captured.out)
    assert captured.err == ""
    assert set(parsed) == {"memories", "questions", "k", "seed", "embedders", "lines", "answers"}
    assert (parsed["memories"], parsed["questions"]) == (30, 12)
    assert list(parsed["embedders"]) == ["text alone", "as it is", "other embedder", "other settings"]
    keys = {"way", "kind", "questions", "first", "found", "mrr", "found_gain", "mrr_gain"}
    assert all(set(line) == keys for line in parsed["lines"])
    (whole,) = [line for line in parsed["lines"] if (line["way"], line["kind"]) == ("text alone", "all")]
    assert set(whole["mrr_gain"]) == {"mean", "low", "high"}


def test_the_eval_table_lists_the_ways_and_the_origin_of_its_questions_and_leaves_the_memory_file_unchanged(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = file.read_bytes()
    assert asked(file, "--questions", "12") == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines()[0].split()[:2] == ["way", "questions"]
    assert "Text alone" in captured.out
    assert "12 questions made from 30 memories by rule, seed 0" in captured.err
    assert file.read_bytes() == before


def test_a_regression_since_an_earlier_evaluation_is_shown_question_by_question(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written, earlier = tmp_path / "written.jsonl", tmp_path / "earlier.json"
    memory = open_memory(file)
    kettle = next(hit.memory for hit in run_sync(memory.recall("kettle", 30)) if "kettle of" in hit.memory.text)
    run_sync(memory.close())
    question = "Which colour was the " + kettle.text.split(" was ")[0].removeprefix("The ") + "?"
    written.write_text(json.dumps({"question": question, "id": kettle.id}) + "\n", "utf-8")
    assert asked(file, "--written", str(written), "--json") == 0
    parsed = json.loads(capsys.readouterr().out)
    (answer,) = parsed["answers"]
    assert (answer["question"], answer["kind"], answer["place"]) == (question, "written", 1)
    earlier.write_text(json.dumps(parsed), "utf-8")
    memory = open_memory(file)  # a nearer text from now on, as another embedder or version might rank it
    thing = kettle.text.split(" was ")[0].replace("The", "the", 1)
    run_sync(memory.remember(f"The colour of {thing} is green."))
    run_sync(memory.close())
    assert asked(file, "--written", str(written), "--against", str(earlier)) == 0
    said = capsys.readouterr().out
    assert "MRR of 1 questions now less the earlier evaluation: -" in said
    assert f": {question} ({kettle.id})" in said


def test_eval_refuses_files_that_are_not_its_own(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text('{"question": "Who?"}\n', "utf-8")
    assert asked(file, "--written", str(other)) == 2
    assert "other.jsonl, line 1" in capsys.readouterr().err
    assert asked(file, "--against", str(other)) == 2
    assert "eval --json" in capsys.readouterr().err
    other.write_text('{"question": "Who?", "id": "nobody"}\n', "utf-8")
    assert asked(file, "--written", str(other)) == 2
    assert "no memory has the id 'nobody'" in capsys.readouterr().err


def test_eval_reports_too_few_memories_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "small.db"
    memory = open_memory(path)
    run_sync(memory.remember("I moved to Lisbon."))
    run_sync(memory.close())
    assert asked(path) == 2
    assert "too few" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--with", "nonsense"), "no embedder 'nonsense'"),
        (("--with", "openai"), "no embedder 'openai'"),
        (("--setting", "conversation.typo=1"), "'conversation.typo' is no setting"),
        (("--setting", "candidates=many"), "candidates: 'many' is not a number"),
        (("--setting", "candidates=0"), "candidates"),
    ],
)
def test_eval_refuses_invalid_embedders_and_settings_before_it_runs(
    file: Path, words: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked(file, *words) == 2
    assert complaint in capsys.readouterr().err


def test_recall_settings_are_changed_by_name_and_the_others_keep_their_values() -> None:
    changed = changed_recall_settings(
        RecallSettings(), ["dialogue.session=0.25", "dialogue.cosine=0.9", "candidates=50"]
    )
    assert changed.dialogue == {**RecallSettings().dialogue, "session": 0.25, "cosine": 0.9}
    assert (changed.candidates, changed.told) == (50, RecallSettings().told)


def test_an_embedder_of_an_endpoint_is_named_with_its_model() -> None:
    settings = AssistantSettings(base_url="http://127.0.0.1:9/v1", ollama_host="127.0.0.1:9")
    for name in ("openai:small", "ollama:small"):
        embedder, client = make_named_embedder(settings, name)
        assert name.partition(":")[2] in embedder.fingerprint
        assert client is not None
        run_sync(client.aclose())
    with pytest.raises(ConfigurationError, match="local, static, hashing"):
        make_named_embedder(settings, "local:x")
