"""The sentence that answers a question, among the sentences of several passages. Nothing is generated.

A sentence is scored by the words of the question that it holds, weighed by how few of the other sentences have them;
by those that its heading and the sentence before it supply; by its likeness in meaning, where there is an encoder; by
the kind of answer asked for (a number, a time, a name); and by the score of its passage.

>>> passages = [Passage("c1", text="Rain fell. The bridge opened in 1932.", document="a.md", score=1.0)]
>>> sentence = best_sentences("When did the bridge open?", passages)[0]
>>> passages[sentence.passage].text[sentence.start:sentence.end]
'The bridge opened in 1932.'
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log

from memory.documents.citations import QUOTE_LIMIT, quotable_spans, stating_spans
from memory.documents.document import Passage
from memory.retrieval.languages.lexicon import Lexicon, lexicon_for
from vectorstore import Analyzer

MAX_COMPARED = 24
"""Sentences whose meaning is compared: an encoder takes about 2 ms for each."""
# The weights were chosen on the half "choose" of `python -m benchmarks manual`.
_CONTEXT_SHARE = 0.7
"""Worth of a word that the heading or the sentence before has, where it is 1 in the sentence itself."""
_MEANING_WEIGHT = 0.5
_PASSAGE_WEIGHT = 1.0
_KIND_BONUS = 0.1
_LONG_PENALTY = 0.2
"""Penalty of a sentence as long as a quote may be; a shorter one has its share of it."""
_ASKS_PERSON = re.compile(r"\b(?:who|whom|whose|wer|wen|wem|wessen|qui|quién|quiénes|chi|quem)\b", re.IGNORECASE)
_NAME = re.compile(r"(?<=[\w,;] )[A-Z\u00c0-\u00de]\w+")
_LEANS_BACK = re.compile(
    r"(?:it|its|they|their|he|she|his|her|this|that|these|those|er|sie|es|dies\w*)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class AnswerSentence:
    """A sentence, from *start* to *end* of the text of the *passage* with that index, and its *score*.

    *leads_in* is where the sentence before it begins, if this one leans on it ("It opened in 1932."); else *start*.
    """

    passage: int
    start: int
    end: int
    score: float
    leads_in: int


def best_sentences(
    question: str,
    passages: Sequence[Passage],
    *,
    analyzer: Analyzer | None = None,
    limit: int = QUOTE_LIMIT,
) -> list[AnswerSentence]:
    """Return the sentences of *passages*, best first, each of at most *limit* characters; ties in their order.

    *analyzer* makes words comparable and knows the language (None: English).
    """
    analyzer = analyzer or Analyzer()
    terms, lexicon = analyzer.terms, lexicon_for(analyzer.language)
    texts = [passage.text for passage in passages]
    spans = [(index, span) for index, text in enumerate(texts) for span in stating_spans(text, limit)]
    if not spans:
        spans = [(index, span) for index, text in enumerate(texts) for span in quotable_spans(text, limit)]
    wanted = frozenset(terms(question))
    found = [frozenset(terms(passages[index].text[start:end])) & wanted for index, (start, end) in spans]
    frequencies = Counter(term for held in found for term in held)
    weights = {term: log(1 + len(spans) / (0.5 + frequencies[term])) for term in wanted}
    headings = [frozenset(terms(" ".join((*passage.heading, passage.title)))) & wanted for passage in passages]
    total, best = sum(weights.values()), max((passage.score for passage in passages), default=0.0)
    sentences: list[AnswerSentence] = []
    for number, ((index, (start, end)), held) in enumerate(zip(spans, found, strict=True)):
        passage = passages[index]
        previous = number > 0 and spans[number - 1][0] == index
        context = (headings[index] | (found[number - 1] if previous else frozenset())) - held
        words = sum(weights[term] for term in held) + _CONTEXT_SHARE * sum(weights[term] for term in context)
        score = words / total if total else 0.0
        score += _PASSAGE_WEIGHT * passage.score / best if best > 0 else 0.0
        score += _KIND_BONUS * _is_of_kind(question, passage.text[start:end], lexicon)
        score -= _LONG_PENALTY * (end - start) / limit
        leans = previous and _LEANS_BACK.match(passage.text, start) is not None
        leads_in = spans[number - 1][1][0] if leans and end - spans[number - 1][1][0] <= limit else start
        sentences.append(AnswerSentence(index, start, end, score, leads_in))
    return sorted(sentences, key=lambda sentence: -sentence.score)


def with_meaning(sentences: Sequence[AnswerSentence], similarities: Sequence[float]) -> list[AnswerSentence]:
    """Return *sentences*, best first, where the first ones have these cosines with the question; the rest behind."""
    compared = [
        replace(sentence, score=sentence.score + _MEANING_WEIGHT * similarity)
        for sentence, similarity in zip(sentences, similarities, strict=False)
    ]
    return sorted(compared, key=lambda sentence: -sentence.score) + list(sentences[len(compared) :])


def _is_of_kind(question: str, sentence: str, lexicon: Lexicon) -> bool:
    """Return whether *sentence* holds a time, a number or a name where *question* asks for one."""
    return bool(
        (lexicon.asks_time.search(question) and (lexicon.time.search(sentence) or lexicon.number.search(sentence)))
        or (lexicon.asks_number.search(question) and lexicon.number.search(sentence))
        or (_ASKS_PERSON.match(question) and _NAME.search(sentence))
    )
