"""The sentence that answers a question, by the kind of the question. Inner part, on no face:
``tellback.memory.documents.citations``."""

from __future__ import annotations

import pytest

from tellback.memory import Passage
from tellback.memory.documents.citations import cite
from tellback.memory.internals import best_sentences, quoted_text

HOW_TO = """\
Virtual environments keep packages apart.

A virtual environment is made by the command:

```
python3 -m venv .venv
```

Activate it afterwards."""
SERVICES = "| service | port | owner |\n|---|:-:|---|\n| web | 8080 | Ann |\n| mailer | 2525 | Bo |\n\nIt runs."
SETTINGS = (
    "name: lab; mailer.host: mx.lan; mailer.port: 2525; web.port: 80; "
    "teams.1.service: web; teams.1.owner: Ann; teams.2.service: ledger; teams.2.owner: Omar"
)


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        (
            "How do I make a virtual environment?",
            HOW_TO,
            "A virtual environment is made by the command:\n\n```\npython3 -m venv .venv\n```",
        ),
        (
            "How do I make a virtual environment?",
            f"A virtual environment is made by `create()` too.\n\n{HOW_TO}",
            "A virtual environment is made by the command:\n\n```\npython3 -m venv .venv\n```",
        ),
        (
            "How many columns can a table have?",
            "The columns of a table can be many. A table can have 1600 columns. It is slow then.",
            "A table can have 1600 columns.",
        ),
        (
            "Where does Ben live?",
            "name: Ada; born: 1990; city: Porto\nname: Ben; born: 1985; city: Graz\nname: Cleo; city: Rome",
            "name: Ben; born: 1985; city: Graz",
        ),
        ("Which port does the mailer use?", SERVICES, "service: mailer; port: 2525; owner: Bo"),
        ("Who owns the web?", SERVICES, "service: web; port: 8080; owner: Ann"),
        ("Which port does the mailer use?", SETTINGS, "mailer.port: 2525"),
        ("What is the name of the configuration?", SETTINGS, "name: lab"),
        ("Who owns the ledger?", SETTINGS, "teams.2.service: ledger; teams.2.owner: Omar"),
        (
            "What learning rate is used?",
            "```python\nlearning_rate = 3e-4  # small\nfit(x)\n```",
            "learning_rate = 3e-4",
        ),
        (
            "How do I sign a tag?",
            "- example: merge of the signed tag\n\nTags help (see How to sign a tag).\n\n`-s`: Make a signed tag.",
            "`-s`: Make a signed tag.",
        ),
        (
            "How do I create a RAID array?",
            "The array is created by `mdadm --create`.\n\nNote that a RAID array can be created with `mdadm` too.",
            "The array is created by `mdadm --create`.",
        ),
        (
            "How is the array stopped?",
            "# mdadm --stop the array\nmdadm: array stopped\n```\n\nThe array is stopped by `mdadm --stop`.",
            "The array is stopped by `mdadm --stop`.",
        ),
        (
            "How do I import an export?",
            "![import of an export](import.svg)\n\nAn export is taken in by `import FILE`.",
            "An export is taken in by `import FILE`.",
        ),
        (
            "Where is the shed key?",
            "Ask where is the shed key. **Where is the shed key?** Behind the rain barrel.\n\nThe shed key is iron.",
            "**Where is the shed key?** Behind the rain barrel.",
        ),
        (
            "Who founded the Harbour project?",
            "The Harbour project was founded on trust. Ada Lind, founder of the Harbour project, led it at first.",
            "Ada Lind, founder of the Harbour project, led it at first.",
        ),
        (
            "What is a tombstone?",
            "A tombstone also stays after an import. A tombstone is a mark of what was forgotten.",
            "A tombstone is a mark of what was forgotten.",
        ),
        (
            "How long are logs kept?",
            "Logs are kept in version 3 too. Logs are kept for two weeks.",
            "Logs are kept for two weeks.",
        ),
        (
            "What is a detached head?",
            "See also the section on a detached head. A detached head is one that names a commit.",
            "A detached head is one that names a commit.",
        ),
        (
            "How is a file backed up?",
            'By command:\n\n```\ntellback ask "How is a file backed up?"\n```\n\nCall `backup(path)` on the file.',
            "Call `backup(path)` on the file.",
        ),
    ],
)
def test_the_best_sentence_has_the_kind_of_answer_asked_for(question, text, answer):
    best = best_sentences(question, [Passage("p", text, "a.md", score=1.0)])[0]
    quoted = quoted_text(text, best.start, best.end)
    assert answer in quoted
    assert len(quoted) <= len(answer) + 60


def test_the_row_of_a_table_is_cited_with_the_names_of_its_columns():
    citation = cite("Which port does the mailer use?", [Passage("p", SERVICES, "a.md")])[0]
    row = SERVICES[citation.start : citation.end]
    assert (row, citation.quote) == ("| mailer | 2525 | Bo |", "service: mailer; port: 2525; owner: Bo")
    assert quoted_text(row, 0, len(row)) == row  # where the names are not in the passage


def test_an_unmarked_heading_is_not_quoted_as_the_answer():
    passage = Passage("p", "1.1.6 Virtual consoles\n\nSix of them are there.", "a.pdf", heading=("Virtual consoles",))
    sentences = best_sentences("How many virtual consoles are there?", [passage])
    assert all("1.1.6" not in passage.text[found.start : found.start + 5] for found in sentences)
