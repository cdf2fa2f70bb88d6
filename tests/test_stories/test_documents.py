"""A folder of documents becomes part of a memory: asked, changed, deleted, and cited by page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tellback.memory import KnowledgeBase, open_memory
from tellback.memory.internals import IngestAction

pytestmark = pytest.mark.anyio

FILES = 320
RIGHT = 17 / 20
"""The share of the questions, every twelfth of them, whose first quote is of the right file."""


def squad_files(folder: Path, data: Path) -> list[tuple[str, str]]:
    """Write one Markdown file a paragraph; return (question, name of its file) of answerable questions."""
    articles = json.loads((data / "squad" / "squad_dev_half.json").read_text(encoding="utf-8"))["data"]
    questions: list[tuple[str, str]] = []
    for article in articles:
        title = article["title"].replace("_", " ")
        for number, paragraph in enumerate(article["paragraphs"]):
            name = f"{article['title'].lower()}-{number:02}.md"
            (folder / name).write_text(f"# {title}\n\n{paragraph['context']}\n", encoding="utf-8")
            questions += [(item["question"], name) for item in paragraph["qas"] if not item["is_impossible"]]
    return questions


def cranfield_files(folder: Path, data: Path, count: int) -> None:
    """Write *count* abstracts of another subject beside them."""
    records = (data / "cranfield" / "cran.all.1400").read_text(encoding="latin-1").split("\n.W\n")[1 : count + 1]
    for number, record in enumerate(records):
        (folder / f"abstract-{number:02}.txt").write_text(record.split("\n.I ")[0], encoding="utf-8")


def make_pdf(pages: list[str]) -> bytes:
    """Return a PDF with a line of text a page, written by hand."""
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Times-Roman >>",
    ]
    kids = []
    for text in pages:
        content = f"BT /F1 12 Tf 50 700 Td ({text}) Tj ET"
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {len(objects)} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    out, offsets = "%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    end = f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n"
    return (out + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{end}").encode("latin-1")


@pytest.mark.slow
async def test_a_knowledge_base_ingests_a_folder_retrieves_from_it_and_follows_its_changes(tmp_path, data_dir):
    folder, path = tmp_path / "paragraphs", tmp_path / "memory.db"
    folder.mkdir()
    questions = squad_files(folder, data_dir)
    cranfield_files(folder, data_dir, FILES - len(list(folder.iterdir())))

    async with open_memory(path) as memory:
        report = await KnowledgeBase(memory).ingest(folder)
        assert report.totals[IngestAction.ADDED] == FILES

    async with open_memory(path) as memory:  # as a new process finds it
        knowledge = KnowledgeBase(memory)
        assert len(await knowledge.documents()) == FILES
        right, asked = 0, questions[::12]
        for question, name in asked:
            citations = await knowledge.cite(question, await knowledge.retrieve(question))
            text = (folder / citations[0].document).read_text(encoding="utf-8")
            assert text[citations[0].start : citations[0].end] == citations[0].quote
            right += citations[0].document == name
        assert right / len(asked) >= RIGHT

        again = await knowledge.ingest(folder)
        assert not again.changed
        assert again.totals[IngestAction.UNCHANGED] == FILES

        changed, deleted = sorted(folder.glob("*.md"))[:2]
        changed.write_text(changed.read_text(encoding="utf-8") + "\nThe zeppelin landed at noon.\n", encoding="utf-8")
        deleted.unlink()
        report = await knowledge.ingest(folder)
        assert [line.source for line in report.of(IngestAction.UPDATED)] == [changed.name]
        assert report.embedded == report.of(IngestAction.UPDATED)[0].embedded > 0
        assert [line.source for line in report.of(IngestAction.REMOVED)] == [deleted.name]
        assert (await knowledge.retrieve("When did the zeppelin land?"))[0].document == changed.name
        assert deleted.name not in {document.source for document in await knowledge.documents()}
        assert memory.store.verify() == []


async def test_a_pdf_is_cited_by_its_page(tmp_path):
    pytest.importorskip("pypdfium2")
    report = tmp_path / "report.pdf"
    report.write_bytes(
        make_pdf(
            [
                "The survey began in April with forty volunteers.",
                "Its budget was nine thousand crowns.",
                "The final count found eleven herons at the lake.",
            ]
        )
    )
    async with open_memory(tmp_path / "memory.db") as memory:
        knowledge = KnowledgeBase(memory)
        await knowledge.ingest(report)
        for question, page, words in (
            ("How many volunteers were there?", 1, "forty volunteers"),
            ("What was the budget?", 2, "nine thousand"),
            ("How many herons were found?", 3, "eleven herons"),
        ):
            first = (await knowledge.cite(question, await knowledge.retrieve(question)))[0]
            assert words in first.quote
            assert str(first) == f"[1] report.pdf, p. {page}"
