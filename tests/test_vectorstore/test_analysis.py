"""The text analyzer: terms, stop words, stems and compounds of each language.

Inner parts, on no face: ``tellback.vectorstore.analyzer``, ``tellback.vectorstore.languages``,
``tellback.vectorstore.persisted_names``.
"""

# ruff: noqa: RUF001 - other scripts are what is tested
from __future__ import annotations

import copy
import pickle
import random
import re
import threading
import unicodedata
from collections.abc import Iterator

import pytest
import Stemmer
from hypothesis import given
from hypothesis import strategies as st

import tellback.vectorstore.analyzer
from tellback.vectorstore import Analyzer, ArgumentError
from tellback.vectorstore.analyzer import fold_text
from tellback.vectorstore.languages import stop_words
from tellback.vectorstore.persisted_names import ANALYZER_FINGERPRINT
from tests.support.slow import first_fast

ENGLISH = Analyzer()
PLAIN = Analyzer("none")


def test_terms_ignore_case_and_inflection() -> None:
    assert ENGLISH.terms("Adopted CATS") == ENGLISH.terms("adopting cat") == ["adopt", "cat"]


def test_stop_words_give_no_terms() -> None:
    assert ENGLISH.terms("To be, or not to be: that is it.") == []


@pytest.mark.parametrize("text", ["won't", "can't", "I'm", "they’re", "y'all'd", "don‘t"])
def test_contractions_give_no_terms(text: str) -> None:
    assert ENGLISH.terms(text) == []


def test_the_word_won_is_no_contraction_and_stays_a_term() -> None:
    assert ENGLISH.terms("she won") == ["won"]


def test_a_possessive_gives_the_term_of_its_owner() -> None:
    assert ENGLISH.terms("Caroline's O’Brien") == ["carolin", "brien"]


def test_the_word_may_is_not_a_stop_word() -> None:
    assert ENGLISH.terms("8 May, 2023") == ["8", "may", "2023"]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Café Ωμέγα ŁÓDŹ Straße", ["cafe", "ωμεγα", "lodz", "strasse"]),
        ("ﬁne ①② ＡＢＣ", ["fine", "12", "abc"]),
        ("йод ёж", ["йод", "ёж"]),
        ("हिन्दी किताबें", ["हिन्दी", "किताबें"]),
        ("co\u00adoperate", ["cooperate"]),
        ("İstanbul", ["istanbul"]),
    ],
)
def test_accents_and_width_fold_where_they_do_not_change_letters(text: str, terms: list[str]) -> None:
    assert PLAIN.terms(text) == terms


def test_composed_and_decomposed_letters_give_equal_terms() -> None:
    for text in ("café", "йод", "がぎ", "한국", "résumé"):
        assert PLAIN.terms(unicodedata.normalize("NFD", text)) == PLAIN.terms(text)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("記憶", ["記憶"]),
        ("日本語の記憶", ["日本", "本語", "語の", "の記", "記憶"]),
        ("猫", ["猫"]),
        ("ｶﾀｶﾅ", ["カタ", "タカ", "カナ"]),
        ("한국어", ["한국", "국어"]),
        ("東京tower2号", ["東京", "tower2", "号"]),
        ("猫、犬", ["猫", "犬"]),
        ("ภาษา", ["ภา", "าษ", "ษา"]),
    ],
)
def test_scripts_without_spaces_give_character_pairs(text: str, terms: list[str]) -> None:
    assert PLAIN.terms(text) == terms


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("user_name", ["user", "name", "user_name"]),
        ("__init__", ["init"]),
        ("parseHttpRequest", ["parse", "http", "request", "parsehttprequest"]),
        ("HTTPServer", ["http", "server", "httpserver"]),
        ("PDFs NASA", ["pdfs", "nasa"]),
        ("os.path", ["os", "path", "os.path"]),
        ("sqlite-vec", ["sqlite", "vec", "sqlite-vec"]),
        ("3.52.1", ["3", "52", "1", "3.52.1"]),
        ("ann@mail.example", ["ann", "mail", "example", "mail.example", "ann@mail.example"]),
        ("src/app/main.py", ["src", "app", "main", "py", "main.py", "src/app/main.py"]),
        ("C:\\Temp", ["c", "temp"]),
        ("Temp\\a", ["temp", "a", "temp\\a"]),
        ("2023-05-08", ["2023", "05", "08", "2023-05-08"]),
        ("C++ C# foo# a++b", ["c++", "c#", "foo", "a++", "b"]),
        ("1,000 1,000,000.50 1,2", ["1000", "1000000", "50", "1000000.50", "1", "2"]),
        ("end. Next", ["end", "next"]),
        ("wait...what", ["wait", "what"]),
    ],
)
def test_a_compound_identifier_gives_its_parts_and_the_whole_as_terms(text: str, terms: list[str]) -> None:
    assert PLAIN.terms(text) == terms


def test_a_camel_case_word_also_gives_its_joined_term() -> None:
    assert ENGLISH.terms("javascripts")[0] in ENGLISH.terms("JavaScripts")


def test_joined_stop_words_give_no_terms() -> None:
    assert ENGLISH.terms("and/or he/she") == []


def test_a_name_of_very_many_parts_gives_its_parts_only() -> None:
    assert PLAIN.terms("/".join("abcdefghijklmnopqrst")) == list("abcdefghijklmnopqrst")


def test_long_words_are_cut() -> None:
    assert PLAIN.terms("a" * 1000) == ["a" * 64]
    assert all(len(term) <= 64 for term in PLAIN.terms("ab-" * 1000 + "x_" * 40 + "é" * 100))


def test_plain_prose_gives_its_stemmed_words_and_nothing_else() -> None:
    text = "Melanie painted the sunrise over the lake last year and gave it to her friends as a gift"
    stem = Stemmer.Stemmer("english")
    words = re.findall(r"\w+", text.lower())
    assert ENGLISH.terms(text) == [stem.stemWord(word) for word in words if word not in stop_words("english")]


def test_other_languages_stem_words_before_folding_accents() -> None:
    assert Analyzer("french").terms("mangé") == Analyzer("french").terms("mange")
    assert Analyzer("german").terms("für die schönen Häuser") == ["schon", "haus"]
    assert Analyzer("german").terms("schon") == []
    assert Analyzer("spanish").terms("¿Qué canción?") == ["cancion"]


@pytest.mark.parametrize("language", [*Stemmer.algorithms(), "none"])
def test_every_language_takes_any_alphabet(language: str) -> None:
    terms = Analyzer(language).terms("Zebra xyz123 жук भाषा 記憶 \ud800 ქართული")
    assert "xyz123" in terms
    assert "記憶" in terms
    assert "" not in terms


def test_an_unknown_language_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ArgumentError, match=r"language: one of .*english.*none"):
        Analyzer("klingon")


def test_the_fingerprint_names_the_language() -> None:
    assert Analyzer("french").fingerprint == ANALYZER_FINGERPRINT.format(version=1, language="french")
    assert Analyzer("german").fingerprint != Analyzer("german").fingerprint.replace("2", "1")


def test_analyzers_of_one_language_are_equal_and_survive_pickling_and_copying() -> None:
    assert Analyzer("german") == Analyzer("german") != Analyzer("french")
    assert hash(Analyzer()) == hash(ENGLISH)
    for twin in (pickle.loads(pickle.dumps(ENGLISH)), copy.deepcopy(ENGLISH)):
        assert twin == ENGLISH
        assert twin.terms("walking") == ["walk"]


def test_sentences_end_at_stops_and_lines() -> None:
    text = 'I met Ann. "Really?" Yes… v3.52 came\nOut! 猫が好き。犬も！好き'
    assert [" ".join(sentence) for sentence in PLAIN.sentences(text)] == [
        "i met ann",
        "really",
        "yes",
        "v3 52 v3.52 came",
        "out",
        "猫が が好 好き",
        "犬も",
        "好き",
    ]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("the wind turned\nand fell", ["the wind turned and fell"]),
        ("The wind turned\nAnna left", ["the wind turned", "anna left"]),
        ("The ship that had left the harbour in the early\nmorning of Monday was lost", 1),
        ("The ship that had left the harbour in the early morning of\nMonday was lost", 1),
        ("The ship that had left the harbour in the early morning of\r\nMonday was lost", 1),
        ("The ship that had left the harbour in the early morning of\n\nMonday was lost", 2),
        ("The ship that had left the harbour in the early morning took:\n- sails\n- ropes\n2) tar\n# End", 5),
        ("The ship that had left the harbour in the early morning took\n    some code\n\tMore", 3),
    ],
)
def test_a_wrapped_line_does_not_end_a_sentence(text: str, sentences: list[str] | int) -> None:
    found = [" ".join(sentence) for sentence in PLAIN.sentences(text)]
    assert (found if isinstance(sentences, list) else len(found)) == sentences


def test_sentences_without_a_term_are_left_out() -> None:
    assert ENGLISH.sentences("It is. Cats! To be?\n\n...") == [["cat"]]


@pytest.mark.parametrize(
    ("text", "asking"),
    [
        ("Cats sleep. Do dogs bark? Birds sing.", [False, True, False]),
        ('Do dogs bark?! Is it? He said "why do birds sing?" Cats sleep', [True, True, False]),
        ("\u4f60\u4f4f\u5728\u54ea\u91cc\uff1f\u6211\u4f4f\u5728\u4e0a\u6d77\u3002", [True, False]),
        ("", []),
    ],
)
def test_the_analyzer_distinguishes_questions_from_statements(text: str, asking: list[bool]) -> None:
    analyzer = Analyzer("chinese") if "\u6211" in text else ENGLISH
    assert analyzer.asking(text) == asking
    assert len(asking) == len(analyzer.sentences(text))


@given(st.text())
def test_sentences_hold_the_terms_of_the_text(text: str) -> None:
    assert [term for sentence in ENGLISH.sentences(text) for term in sentence] == ENGLISH.terms(text)


@given(st.text(alphabet=st.sampled_from("aZé_.-'’,/@+# \n1。!猫がｶ\u0301\u3099\u0338ह\u093f\ud800")))
def test_any_string_gives_terms_of_bounded_length(text: str) -> None:
    for analyzer in (ENGLISH, PLAIN):
        terms = [term for sentence in analyzer.sentences(text) for term in sentence]
        assert terms == analyzer.terms(text)
        assert all(0 < len(term) <= 64 for term in terms)


@given(st.text())
def test_fold_text_is_idempotent(text: str) -> None:
    assert fold_text(fold_text(text)) == fold_text(text)


@pytest.mark.parametrize(
    "unit", first_fast([*"a.-_'’,/@+#1! \n。猫…\"é\u0301", "1,", "1,111,", "a.", "aB", "a'", "A+", ". ", "!)", "_a"])
)
def test_the_analyzer_finishes_on_a_hundred_thousand_repeated_characters(unit: str) -> None:
    text = unit * (100_000 // len(unit)) + "x"
    assert [term for sentence in ENGLISH.sentences(text) for term in sentence] == ENGLISH.terms(text)


def test_threads_may_share_an_analyzer() -> None:
    words = [f"{stem}{ending}" for stem in ("walk", "paint", "jump") for ending in ("s", "ing", "ed")] * 200
    texts = [" ".join(f"{word} {word}{i % 97}x{word}" for i, word in enumerate(words[start:])) for start in range(8)]
    expected = [Analyzer().terms(text) for text in texts]
    shared, found = Analyzer(), [None] * len(texts)

    def work(i: int) -> None:
        found[i] = shared.terms(texts[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected


def lines(characters: str, *, longest: int, seed: int) -> Iterator[str]:
    """Yield lines drawn from *characters*."""
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(20_000):
        yield "".join(chance.choices(characters, k=chance.randrange(longest)))


@pytest.mark.slow
def test_the_ascii_fast_path_gives_the_terms_and_sentences_of_the_general_path() -> None:
    several = 0
    for line in lines("aBc1.!?\"']),-_+#/@: \t\x1c\n", longest=20, seed=5):
        # A letter that is not ASCII, in a line of its own, takes the general way; its own term is then left out.
        general = ENGLISH.sentences(line + "\n\nzürich")[:-1]
        assert ENGLISH.sentences(line) == general
        assert ENGLISH.terms(line) == [term for sentence in general for term in sentence]
        several += len(general) > 1
    assert several > 1000


@pytest.mark.slow
def test_the_single_line_sentence_splitter_splits_like_the_general_splitter() -> None:
    split = 0
    for line in lines("ab1.!?…؟।\"'”’»)] \t\x1c\xa0\u3000-", longest=14, seed=4):
        general = tellback.vectorstore.analyzer._SENTENCE_BREAK.split(line)
        assert tellback.vectorstore.analyzer._SENTENCE_BREAK_IN_LINE.split(line) == general
        split += len(general) > 1
    assert split > 1000


@pytest.mark.parametrize(
    ("word", "terms"),
    [
        ("Schreibtisch", ["schreib", "tisch", "schreibtisch"]),
        ("Zahnarzt", ["zahn", "arzt", "zahnarz"]),
        ("Geburtstagskuchen", ["geburtstag", "kuch", "geburtstagskuch"]),
        ("Zwillinge", ["zwilling"]),
        ("wohnt", ["wohn"]),
        ("Haus", ["haus"]),
    ],
)
def test_german_compounds_give_their_parts_and_verbs_their_stem(word: str, terms: list[str]) -> None:
    assert Analyzer("german").terms(word) == terms
    assert Analyzer("german").terms("wohne") == Analyzer("german").terms("wohnen") == ["wohn"]


def test_chinese_gives_characters_and_pairs_between_particles_and_english_words_as_english() -> None:
    chinese = Analyzer("chinese")
    assert chinese.terms("我的猫叫什么\uff1f") == ["猫", "叫", "猫叫"]
    assert chinese.terms("用Python写的程序") == ["用", "python", "写", "程", "序", "程序"]
    assert chinese.terms("cats") == Analyzer("english").terms("cats")
    assert pickle.loads(pickle.dumps(chinese)) == chinese
