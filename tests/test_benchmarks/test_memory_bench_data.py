"""Runners of data sets, on small files of exactly the shape that their published readers expect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from Stemmer import Stemmer

from benchmarks.memory.answer import official_f1
from benchmarks.memory.data.catalogue import read_data
from benchmarks.memory.data.dataset import Asked, DataError, DataSet
from benchmarks.memory.figures import Result
from benchmarks.memory.protocol import Question

LOCOMO = [
    {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ana",
            "speaker_b": "Ben",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ana", "dia_id": "D1:1", "text": "I went to a concert.", "blip_caption": "a stage"},
                {"speaker": "Ben", "dia_id": "D1:2", "text": "I bought a cello."},
            ],
        },
        "qa": [
            {"question": "What did Ben buy?", "answer": "a cello", "evidence": ["D1:2"], "category": 4},
            {"question": "When?", "answer": 2023, "evidence": ["D1:1; D1:2"], "category": 2},
            {"question": "Lost?", "answer": "-", "evidence": ["D9:9"], "category": 1},
            {"question": "What did Ana buy?", "adversarial_answer": "a cello", "evidence": ["D1:2"], "category": 5},
        ],
    }
]
REALTALK = {
    "name": {"speaker_1": "Ana", "speaker_2": "Ben"},
    "session_1": [
        {"clean_text": "Hey", "speaker": "Ana", "date_time": "29.12.2023, 10:00:01", "dia_id": "D1:1"},
        {"clean_text": "My dog is ill.", "speaker": "Ben", "date_time": "29.12.2023, 10:05:00", "dia_id": "D1:2"},
    ],
    "session_1_date_time": "29.12.2023, 10:00:01",
    "qa": [{"question": "Whose dog is ill?", "answer": "Ben's", "evidence": ["D1:2"], "category": 1}],
}
TURNS = [
    [{"role": "user", "content": "I fly to Oslo.", "has_answer": True}, {"role": "assistant", "content": "Nice."}],
    [
        {"role": "user", "content": "Hi.", "has_answer": False},
        {"role": "assistant", "content": "A7", "has_answer": True},
    ],
]
LONGMEMEVAL = [
    {
        "question_id": id,
        "question_type": kind,
        "question": "Where do I fly?",
        "answer": "Oslo",
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_session_ids": ["answer_1", "answer_2", "answer_1"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/10 (Wed) 02:21", "2023/05/20 (Sat) 02:21"],
        "haystack_sessions": [turns, TURNS[1], turns],
        "answer_session_ids": ["answer_1"],
    }
    for id, kind, turns in (
        ("q1", "single-session-user", TURNS[0]),
        ("q2", "single-session-assistant", [{"role": "user", "content": "Hm.", "has_answer": False}]),
        ("q3_abs", "single-session-user", TURNS[0]),
    )
]
CHAT = [
    {
        "batch_number": 1,
        "turns": [
            [
                {"role": "user", "id": 0, "time_anchor": "March-15-2024", "content": "150 commits so far. ->-> 1,1"},
                {"role": "assistant", "id": 1, "content": "Well done."},
            ],
            [{"role": "user", "id": 2, "content": "It is 165 commits now. ->-> 1,2"}],
        ],
    }
]
PROBES = {
    "abstention": [{"question": "My age?", "ideal_response": "Nothing was said.", "rubric": ["nothing"]}],
    "knowledge_update": [
        {
            "question": "How many commits?",
            "answer": "165",
            "source_chat_ids": {"original_info": [0], "updated_info": [2]},
            "rubric": ["165"],
        }
    ],
    "event_ordering": [{"question": "In which order?", "answer": "150, 165", "source_chat_ids": [0, 2], "rubric": []}],
}


def written(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = isinstance(value, list) and path.suffix == ".jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in value) if lines else json.dumps(value), "utf-8")
    return path


def only(data: DataSet) -> list[Asked]:
    (corpus,) = data.corpora
    return list(corpus.questions)


def test_locomo_has_its_kinds_its_evidence_and_its_own_f1(tmp_path: Path) -> None:
    data = read_data(f"locomo={written(tmp_path / 'locomo10.json', LOCOMO)}")
    cello, when, adversarial = only(data)
    assert [(one.kind, sorted(one.gold)) for one in (cello, when)] == [
        ("single-hop", ["conv-1/D1:2"]),
        ("temporal", ["conv-1/D1:1", "conv-1/D1:2"]),
    ]
    assert data.corpora[0].items[0].line == "(08 May 2023) Ana: I went to a concert. [image: a stage]"
    assert (adversarial.answerable, when.answer) == (False, "2023")
    assert data.drops == {"adversarial"}
    stem = Stemmer("porter").stemWord
    assert official_f1(cello, "He bought a cello", stem) == pytest.approx(0.5)
    hobbies = Asked(Question("q", "?"), "multi-hop", answer="running, painting")
    assert official_f1(hobbies, "paintings, swimming", stem) == pytest.approx(0.5)
    assert official_f1(adversarial, "Not mentioned in the conversation.", stem) == 1.0
    assert official_f1(Asked(Question("q", "?"), "open-domain", answer="yes; she said so"), "Yes", stem) == 1.0


def test_realtalk_is_read_by_its_clean_texts_and_the_time_of_each_turn(tmp_path: Path) -> None:
    data = read_data(f"realtalk={written(tmp_path / 'Chat_1.json', REALTALK).parent}")
    assert [item.at for item in data.corpora[0].items] == ["2023-12-29T10:00:01+00:00", "2023-12-29T10:05:00+00:00"]
    assert [(one.kind, sorted(one.gold)) for one in only(data)] == [("multi-hop", ["Chat_1/D1:2"])]


def test_longmemeval_drops_what_its_authors_drop_and_prints_any_beside_all(tmp_path: Path) -> None:
    data = read_data(f"longmemeval={written(tmp_path / 'longmemeval_s_cleaned.json', LONGMEMEVAL)}")
    first, second, unanswerable = (corpus.questions[0] for corpus in data.corpora)
    assert [item.id for item in data.corpora[0].items] == [
        "q1/answer_2_1", "q1/answer_2_2", "q1/answer_1_1", "q1/answer_1_2",
    ]  # fmt: skip
    assert (sorted(first.gold), sorted(first.sessions)) == (["q1/answer_1_1", "q1/answer_2_2"], ["q1/answer_1"])
    assert (first.official, second.official, unanswerable.official) == (True, False, False)
    assert (sorted(second.gold), unanswerable.answerable) == (["q2/answer_2_2"], False)
    row = {"question": "q1", "hits": ["q1/answer_2_1", "q1/answer_1_2"], "sizes": [1, 1]}
    values = Result(data, {"system": "x", "title": "x"}, [], {"q1": row}, {}, {}).values
    assert (values["first"]["q1"], values["session all@5"]["q1"]) == (0.0, 1.0)
    broken = [{key: value for key, value in LONGMEMEVAL[0].items() if key != "question_date"}]
    with pytest.raises(DataError, match=r"longmemeval_m\.json, entry 0: no question_date"):
        read_data(f"longmemeval={written(tmp_path / 'longmemeval_m.json', broken)}")


def test_beam_knows_the_old_value_of_an_update_and_cuts_the_marks_of_its_plan(tmp_path: Path) -> None:
    written(tmp_path / "100K" / "1" / "chat.json", CHAT)
    written(tmp_path / "100K" / "1" / "probing_questions" / "probing_questions.json", PROBES)
    data = read_data(f"beam={tmp_path / '100K'}")
    items = data.corpora[0].items
    assert [(item.text, item.session, item.at[:10]) for item in items] == [
        ("150 commits so far.", "100K-1/0.0.0", "2024-03-15"),
        ("Well done.", "100K-1/0.0.0", "2024-03-15"),
        ("It is 165 commits now.", "100K-1/0.0.1", "2024-03-15"),
    ]
    absent, update, order = only(data)
    assert (absent.answerable, absent.gold, absent.answer) == (False, {}, "Nothing was said.")
    assert (sorted(update.gold), sorted(update.stale)) == (["100K-1/2"], ["100K-1/0"])
    assert sorted(order.gold) == ["100K-1/0", "100K-1/2"]
    plans = [{"plan-1": CHAT}, {"plan-2": CHAT}]  # the longest chats have ten plans, and ids twice
    written(tmp_path / "10M" / "1" / "chat.json", plans)
    written(tmp_path / "10M" / "1" / "probing_questions" / "probing_questions.json", PROBES)
    long = read_data(f"beam={tmp_path / '10M'}")
    assert len({item.session for item in long.corpora[0].items}) == 4
    assert sorted(only(long)[1].gold) == ["10M-1/2", "10M-1/5"]


def test_beir_is_read_with_its_grades_and_refused_with_other_columns(tmp_path: Path) -> None:
    written(
        tmp_path / "corpus.jsonl", [{"_id": "d1", "title": "Wings", "text": "They lift."}, {"_id": "d2", "text": "No."}]
    )
    written(tmp_path / "queries.jsonl", [{"_id": "q1", "text": "What lifts?"}, {"_id": "q2", "text": "Unjudged"}])
    judged = tmp_path / "qrels" / "test.tsv"
    judged.parent.mkdir()
    judged.write_text("query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\n", "utf-8")
    data = read_data(f"beir={tmp_path}")
    assert [(one.question.text, one.gold) for one in only(data)] == [("What lifts?", {"d1": 2})]
    assert data.corpora[0].items[0].line == "Wings They lift."
    judged.write_text("q1\t0\td1\t2\n", "utf-8")
    with pytest.raises(DataError, match="its columns are"):
        read_data(f"beir={tmp_path}")


@pytest.mark.slow
def test_the_hands_have_gold_stale_and_the_answers_of_their_facts() -> None:
    data = read_data("hands")
    asked = data.questions["hand-01/q001"]
    assert sorted(asked.gold) == ["hand-01/n127"]
    assert sorted(asked.stale) == ["hand-01/n002", "hand-01/n080"]
    assert asked.answer == "with Gisela, on her key ring"
    assert {corpus.name for corpus in data.corpora}.isdisjoint({"hand-04", "hand-06", "hand-08", "hand-12"})


@pytest.mark.parametrize(
    ("memories", "questions", "expected"),
    [
        ('{"id": "m1"}', "{}", "memories.jsonl, line 1: text: Field required"),
        ("not json", "{}", "memories.jsonl, line 1: not JSON"),
        ('{"id": "m1", "text": "a"}\n{"id": "m1", "text": "b"}', "{}", "line 2: the id 'm1' stands there twice"),
        ('{"id": "m1", "text": "a"}', '{"question": "?", "evidence": ["m7"]}', "'m7' is the id of no memory"),
        ('{"id": "m1", "text": "a"}', '{"question": "?", "evidence": [], "x": 1}', "x: Extra inputs are not permitted"),
        ('{"id": "m1", "text": "a"}', "", r"questions\.jsonl: no line in it"),
    ],
)
def test_an_error_in_data_of_ones_own_names_file_and_line(
    tmp_path: Path, memories: str, questions: str, expected: str
) -> None:
    (tmp_path / "memories.jsonl").write_text(memories, "utf-8")
    (tmp_path / "questions.jsonl").write_text(questions, "utf-8")
    with pytest.raises(DataError, match=expected):
        read_data(str(tmp_path))
