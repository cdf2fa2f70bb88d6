"""Token estimate: never too low, compared with the real tokenizer that gives the highest counts."""
# ruff: noqa: RUF001 -- other scripts are what is counted here

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.memory import (
    DocumentBlock,
    EstimatingCounter,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    TokenCounter,
    ToolCallBlock,
    message_tokens,
)
from tellback.memory.internals import local_available

if TYPE_CHECKING:
    from tokenizers import Tokenizer

ROOT = Path(__file__).resolve().parents[2]
needs_tokenizer = pytest.mark.skipif(not local_available(), reason="the extra 'local' has the tokenizer")

SENTENCES = (
    "I moved to Lisbon in May, and my sister Ana came along with her two cats.",
    "ok lol, see you @ 10:30? #party http://example.org/a?b=c&d=1 +351 912 345 678",
    "WARNING: DO NOT ENTER. SELECT * FROM memories WHERE id = 7;",
    "def total(items: list[int]) -> int:\n    return sum(item * 2 for item in items if item != 0)\n",
    '{"name": "Ana", "scores": [1, 2.5, null, true], "nested": {"key_one": "é"}}',
    "if (!found) {\n\t\tconst userName = getUserName(index);\n\t\tthrow new Error(`no ${userName}`);\n}",
    "Gestern bin ich nach Lissabon gezogen; vergiss bitte die Wohnungsgeberbestätigung nicht.",
    "Hier, j'ai déménagé à Lisbonne. N'oublie pas ton passeport, s'il te plaît.",
    "Tegnap Lisszabonba költöztem. Ne felejtsd el az útleveledet.",
    "Wczoraj przeprowadziłem się do Lizbony. Nowe mieszkanie znajduje się w pobliżu stacji metra.",
    "Dün Lizbon'a taşındım. Yeni daire metro istasyonuna yakın.",
    "Hôm qua tôi đã chuyển đến Lisbon. Căn hộ mới ở gần ga tàu điện ngầm.",
    "Вчера я переехал в Лиссабон. Новая квартира находится рядом с метро.",
    "Χθες μετακόμισα στη Λισαβόνα. Το νέο διαμέρισμα είναι κοντά στο μετρό.",
    "אתמול עברתי לליסבון. הדירה החדשה קרובה לתחנת המטרו.",
    "انتقلت أمس إلى لشبونة. الشقة الجديدة قريبة من محطة المترو.",
    "मैं कल लिस्बन चला गया। नया अपार्टमेंट मेट्रो स्टेशन के पास है।",
    "เมื่อวานฉันย้ายไปลิสบอน อย่าลืมหนังสือเดินทาง",
    "நான் நேற்று லிஸ்பனுக்கு குடிபெயர்ந்தேன்.",
    "今日は天気がいいので、公園で散歩しました。明日の会議は午後三時に変更になりました。",
    "我昨天搬到了里斯本,新的公寓离地铁站很近。请不要忘记带护照。",
    "新的公寓離地鐵站很近。記憶體管理與資料庫。",
    "저는 어제 리스본으로 이사했습니다. 새 아파트는 지하철역에서 가깝습니다.",
    "Wow 😀😀 so happy 🎉🎉🎉 see you 👨‍👩‍👧‍👦 ❤️ 👍🏽 🇵🇹 ☕",
    "∀x∈ℝ: x²≥0 → ∑ aᵢ ≤ ∞, ½ of €30 – “quoted” … ™",
)


@cache
def tokenizer() -> Tokenizer:
    import wordllama
    from tokenizers import Tokenizer

    (path,) = (Path(wordllama.__file__).parent / "tokenizers").glob("*.json")
    found = Tokenizer.from_file(str(path))
    found.no_truncation()
    found.no_padding()
    return found


def real(text: str) -> int:
    return len(tokenizer().encode(text, add_special_tokens=False).ids)


@needs_tokenizer
@pytest.mark.parametrize("text", SENTENCES)
def test_no_sentence_is_counted_too_low_nor_far_too_high(text: str) -> None:
    assert real(text) <= EstimatingCounter().count(text) <= 2.1 * real(text)


@needs_tokenizer
@given(
    st.lists(st.tuples(st.sampled_from(SENTENCES), st.sampled_from([" ", "\n", "\n\n", " - "])), min_size=1, max_size=8)
)
def test_the_token_estimate_of_joined_sentences_is_never_too_low(parts: list[tuple[str, str]]) -> None:
    text = "".join(sentence + gap for sentence, gap in parts).strip()
    assert EstimatingCounter().count(text) >= real(text)


@needs_tokenizer
def test_no_page_or_module_of_this_project_is_counted_too_low() -> None:
    counter = EstimatingCounter()
    paths = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "memory").glob("*.py"), ROOT / "pyproject.toml"]
    texts = {path.name: path.read_text(encoding="utf-8") for path in paths}
    assert [name for name, text in texts.items() if text and counter.count(text) < real(text)] == []


@needs_tokenizer
def test_no_turn_of_real_conversations_is_counted_too_low(data_dir: Path) -> None:
    (path,) = (data_dir / "locomo").glob("*.json")
    conversations = [talk["conversation"] for talk in json.loads(path.read_text(encoding="utf-8"))]
    sessions = [part for talk in conversations for part in talk.values() if isinstance(part, list)]
    texts = [turn["text"] for session in sessions for turn in session]
    assert len(texts) > 1000
    counter = EstimatingCounter()
    assert [text for text in texts if counter.count(text) < real(text)] == []
    assert sum(map(counter.count, texts)) < 1.6 * sum(map(real, texts))


class Letters:
    """Token counter of a caller, which counts letters."""

    name = "letters"
    exact = True

    def count(self, text: str) -> int:
        return len(text)


def test_message_tokens_uses_a_token_counter_of_the_caller() -> None:
    counter: TokenCounter = Letters()
    blocks = [
        TextBlock(text="four"),
        ThinkingBlock(text="think"),
        ToolCallBlock(id="1", name="add", arguments={"a": 1}),
        ImageBlock(media_type="image/png", data=b"unreadable"),
        DocumentBlock(media_type="application/pdf", data=bytes(3000)),
    ]
    assert message_tokens(Message.assistant(blocks), counter) == 4 + 4 + 5 + len('add{"a": 1}') + 2500 + 2
