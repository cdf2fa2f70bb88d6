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
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from math import log

from tellback.memory.chunking.sentences import TextSpan
from tellback.memory.documents.document import Passage
from tellback.memory.documents.question_kinds import QuestionKind, answer_form, asked_term, question_kinds
from tellback.memory.documents.sentences import (
    QUOTE_LIMIT,
    code_steps,
    quotable_spans,
    stating_spans,
    without_cross_references,
)
from tellback.memory.documents.table_rows import is_row, items_around, quoted_text
from tellback.memory.retrieval.languages.agent_nouns import agent_nouns
from tellback.memory.retrieval.languages.lexicon import lexicon_for
from tellback.vectorstore import Analyzer

_MAX_COMPARED = 24
"""Sentences whose meaning is compared: an encoder takes about 2 ms for each."""
# The weights were chosen on the half "choose" of `python -m benchmarks documents`.
_CONTEXT_SHARE = 0.7
"""Worth of a word that the heading or the sentence before has, where it is 1 in the sentence itself."""
_MEANING_WEIGHT = 0.5
_PASSAGE_WEIGHT = 1.0
_FORM_WEIGHT = 0.3
"""Worth of having the form of an answer to the kind of question."""
_CODE_WEIGHT = 0.15
"""Worth of a block of code with the words that lead to it, where a step is asked for: it can be done as it stands."""
_LEAD_WORDS = 3
"""Words that lead to a block at least: "Example:" says not what it is for."""
_REMARK_PENALTY = 0.2
"""Penalty of a remark ("Note that …"), which adds to an answer that stands before it."""
_LONG_PENALTY = 0.2
"""Penalty of a sentence as long as a quote may be; a shorter one has its share of it."""
_PAIR_PENALTY = 0.1
"""Penalty of a second sentence, which must bring more than this."""
_WORD = re.compile(r"[^\W\d_]+")
_CODE_BLOCK = re.compile(r"\n[ \t]*```|::[ \t]*\n")
_REMARK = re.compile(r"(?:note that|note:|(?:it is|you can) also|alternatively|beware|keep in mind)\b", re.IGNORECASE)
_ASKS = re.compile(r"\?\W*\s")
_LEANS_BACK = re.compile(
    r"(?:it|its|they|their|he|she|his|her|this|that|these|those|such|instead|otherwise|thus|so|therefore|then|"
    r"to do (?:this|so|that)|in (?:this|that|such|these) \w+|with this|er|sie|es|dies\w*)\b",
    re.IGNORECASE,
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
    kinds, term = question_kinds(question, lexicon), asked_term(question)
    spans = [(index, span) for index, text in enumerate(texts) for span in stating_spans(text, limit)]
    if QuestionKind.STEP in kinds:
        blocks = [(index, span) for index, text in enumerate(texts) for span in code_steps(text, limit)]
        begun = {(index, start) for index, (start, _) in blocks}
        spans = sorted([*blocks, *(span for span in spans if (span[0], span[1][0]) not in begun)])
    asked = _plain_words(question)
    spans = [
        (index, span)
        for index, span in spans
        if not _is_heading(passages[index], span) and not _repeats(texts[index][slice(*span)], asked)
    ]
    if not spans:
        spans = [(index, span) for index, text in enumerate(texts) for span in quotable_spans(text, limit)]
        spans = [(index, span) for index, span in spans if not _repeats(texts[index][slice(*span)], asked)]
    wanted = frozenset(terms(question))
    stated = [without_cross_references(quoted_text(texts[index], *span)) for index, span in spans]
    agents = _agent_terms(question, terms)
    found = [frozenset(agents.get(term, term) for term in terms(text)) & wanted for text in stated]
    frequencies = Counter(term for held in found for term in held)
    weights = {term: log(1 + len(spans) / (0.5 + frequencies[term])) for term in wanted}
    headings = [frozenset(terms(" ".join((*passage.heading, passage.title)))) & wanted for passage in passages]
    total, best = sum(weights.values()), max((passage.score for passage in passages), default=0.0)
    sentences: list[AnswerSentence] = []

    def add(first: int, last: int) -> None:
        """Score the sentences from *first* to *last*, which are neighbours in a passage, as one answer."""
        index, start, end = spans[first][0], spans[first][1][0], spans[last][1][1]
        passage = passages[index]
        held = found[first] | found[last]
        previous = first > 0 and spans[first - 1][0] == index
        context = (headings[index] | (found[first - 1] if previous else frozenset())) - held
        words = sum(weights[term] for term in held) + _CONTEXT_SHARE * sum(weights[term] for term in context)
        score = words / total if total else 0.0
        score += _PASSAGE_WEIGHT * passage.score / best if best > 0 else 0.0
        sentence = without_cross_references(quoted_text(passage.text, start, end))
        form = answer_form(kinds, sentence, lexicon, term=term, question=question)
        score += _FORM_WEIGHT * (1.0 if _plain_words(sentence).startswith(asked) else form)
        if QuestionKind.STEP in kinds and (block := _CODE_BLOCK.search(sentence)):
            score += _CODE_WEIGHT * (len(_WORD.findall(sentence, 0, block.start())) >= _LEAD_WORDS)
        score -= _REMARK_PENALTY if _REMARK.match(sentence) else 0.0
        score -= _LONG_PENALTY * (end - start) / limit + _PAIR_PENALTY * (last - first)
        previous = previous and not passage.text.startswith("|", spans[first - 1][1][0])
        leans = previous and _LEANS_BACK.match(passage.text, start) is not None
        leads_in = spans[first - 1][1][0] if leans and end - spans[first - 1][1][0] <= limit else start
        sentences.append(AnswerSentence(index, start, end, score, leads_in))

    for number, (index, (start, _)) in enumerate(spans):
        add(number, number)
        if number + 1 == len(spans) or spans[number + 1][0] != index:
            continue
        begin, end = spans[number + 1][1]
        row = is_row(texts[index], start) or is_row(texts[index], begin)
        if end - start <= limit and not row and not _ASKS.search(texts[index], begin, end):  # else a question's answer
            add(number, number + 1)
    return sorted(sentences, key=lambda sentence: -sentence.score)


async def with_meaning(
    question: str,
    texts: Sequence[str],
    sentences: Sequence[AnswerSentence],
    similarities: Callable[[str, Sequence[str]], Awaitable[Sequence[float] | None]],
) -> list[AnswerSentence]:
    """Return *sentences*, best first, where the first ones have their likeness in meaning with *question*, too.

    *texts* are those of the passages; *similarities* returns cosines, or None where it cannot.
    """
    first, rest = list(sentences[:_MAX_COMPARED]), list(sentences[_MAX_COMPARED:])
    quotes = [quoted_text(texts[sentence.passage], sentence.start, sentence.end) for sentence in first]
    cosines = await similarities(question, quotes) if quotes else None
    if cosines is not None:
        scores = [sentence.score + _MEANING_WEIGHT * cosine for sentence, cosine in zip(first, cosines, strict=True)]
        first = [replace(sentence, score=score) for sentence, score in zip(first, scores, strict=True)]
    return sorted(first, key=lambda sentence: -sentence.score) + rest


def whole_list(
    question: str, text: str, sentence: AnswerSentence, *, analyzer: Analyzer | None = None, limit: int = QUOTE_LIMIT
) -> AnswerSentence:
    """Return *sentence* of *text*, or the list or table that it is an item of, where that answers as a whole.

    That is one of at most *limit* characters, none of whose items has a word of the *question* that the others lack, or
    the numbered steps of what the question wants to do.
    """
    analyzer = analyzer or Analyzer()
    items = items_around(text, sentence.start)
    if len(items) < 2 or len(quoted_text(text, items[0][0], items[-1][1])) > limit:
        return sentence
    asked = frozenset(analyzer.terms(question))
    held = [asked.intersection(analyzer.terms(quoted_text(text, *item))) for item in items]
    own = (
        words for words, (start, end) in zip(held, items, strict=True) if start < sentence.end and sentence.start < end
    )
    most = frozenset[str]().union(*own)
    are_steps = text[items[0][0] :].lstrip()[:1].isdigit()
    if all(words >= most for words in held) or (
        are_steps and QuestionKind.STEP in question_kinds(question, lexicon_for(analyzer.language))
    ):
        return replace(sentence, start=items[0][0], end=items[-1][1], leads_in=items[0][0])
    return sentence


def _agent_terms(question: str, terms: Callable[[str], Sequence[str]]) -> dict[str, str]:
    """Return the terms of the agent nouns of *question*, with those of their verbs: founder, for founded."""
    return {
        term: target for noun, verb in agent_nouns(question).items() for term in terms(noun) for target in terms(verb)
    }


def _plain_words(text: str) -> str:
    return f" {' '.join(_WORD.findall(text.casefold()))} "


def _repeats(text: str, asked: str) -> bool:
    """Return whether *text* repeats the words *asked* and does not go on with an answer: an example does so.

    Three words or fewer ("size of boats:") may stand anywhere.
    """
    words = _plain_words(text)
    return words == asked or (len(asked.split()) > 3 and asked in words and not words.startswith(asked))


def _is_heading(passage: Passage, span: TextSpan) -> bool:
    """Return whether the words of *span* are those of the last heading above it, which PDF does not mark."""
    if not passage.heading:
        return False
    words, heading = _WORD.findall(passage.text[slice(*span)].casefold()), _WORD.findall(passage.heading[-1].casefold())
    return len(words) >= len(heading) > 0 and words[-len(heading) :] == heading and len(words) - len(heading) <= 4
