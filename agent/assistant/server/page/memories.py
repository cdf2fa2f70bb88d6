"""Views of memories: search and timeline, one memory with all that can be done to it, conflicts, and what was done."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any, Final
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Form, HTTPException, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from tellback.agent.assistant.server.accounts import NotPermitted, shared_memories
from tellback.agent.assistant.server.page.page_route import Opened, PageRoute, go_to
from tellback.agent.assistant.server.page.rendering import (
    PLACE,
    Page,
    is_partial,
    place_query,
    render,
    zone_of_browser,
)
from tellback.agent.assistant.wiring import OpenedMemory
from tellback.agent.desk.consent import Person
from tellback.agent.desk.desk import Mark, MemoryDesk
from tellback.memory import Hit, Memory
from tellback.memory.internals import ORIGIN, time_conditions, with_utterance
from tellback.vectorstore import Filter, RevisionConflict

router = APIRouter(route_class=PageRoute)
_PER_PAGE: Final = 50
_FOUND: Final = 20
_CONFLICTS: Final = 20
_GRACE: Final = timedelta(days=7)
_EXACT_SIMILARITY: Final = 0.995
_NEAR_SHARE: Final = 0.3
"""Share of the best score below which a hit is folded away: it is listed, and seldom meant."""
_NEAR_MEANING: Final = 0.15
"""Share of the score by meaning from which a person is told of it."""
Text = Annotated[str, Form(min_length=1, max_length=100_000)]
Line = Annotated[str, Form(max_length=1_000)]


class MemoryFilter(BaseModel):
    """Choice of memories in the address of a page: a question *q*, and what must hold of each."""

    model_config = ConfigDict(frozen=True)

    place: Annotated[str | None, Field(alias=PLACE, max_length=512)] = None
    q: Annotated[str, Field(max_length=8_000)] = ""
    kind: str = ""
    tag: str = ""
    who: str = ""
    client: str = ""
    document: str = ""
    since: str = ""
    until: str = ""
    state: str = ""

    @property
    def is_narrowed(self) -> bool:
        """Return whether anything beside the question is given."""
        return any(value for name, value in self if name not in ("q", "place"))

    def address(self, path: str = "/memories", **changed: str | None) -> str:
        """Return the address of the page *path* of this choice, some of it *changed*."""
        given = {name: value for name, value in {**dict(self), **changed}.items() if value and name != "place"}
        return f"{path}?{urlencode(given | ({} if self.place is None else {PLACE: self.place}))}"

    def where(self, page: Page) -> Filter | None:
        """Return the filter of what must hold, in the zone of *page*."""
        conditions: list[Filter] = []
        if self.kind:
            conditions.append({"kind": self.kind})
        if self.who:
            conditions.append({"$or": [{"speaker": self.who}, {"role": self.who}, {"actor": self.who}]})
        if self.client:
            conditions.append({ORIGIN: self.client})
        if self.document:
            conditions.append({"document": self.document})
        since, until = _day_of(self.since), _day_of(self.until)
        begin = None if since is None else datetime.combine(since, time(), page.zone)
        end = None if until is None else datetime.combine(until + timedelta(days=1), time(), page.zone)
        conditions += time_conditions((begin, end), page.zone)
        if self.state and self.state != "expired":
            conditions.append({self.state: True})
        return {"$and": conditions} if len(conditions) > 1 else next(iter(conditions), None)


def _day_of(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise HTTPException(422, "A day is needed, such as 2026-05-03.") from None


FilterQuery = Annotated[MemoryFilter, Query()]
_STATES: Final = ("", "pinned", "disabled", "sensitive", "expired")


@dataclass(frozen=True, slots=True)
class Row:
    """Memory in a list, in the place *opened*, with its *hit* and the *reason* it was found, in words."""

    memory: Memory
    opened: OpenedMemory
    hit: Hit | None = None
    reason: str = ""

    @property
    def place(self) -> str | None:
        """Shared namespace that it is in; None for the user's own."""
        return None if self.opened.own else self.opened.namespace

    @property
    def may_write(self) -> bool:
        """Return whether the user may change it; a passage changes with its document."""
        return self.opened.writes and (self.memory.source is None or self.memory.source.document is None)

    def address(self, part: str = "", **query: str) -> str:
        """Return the address of its page, or of a *part* of it."""
        return memory_address(self.opened, self.memory.id, part, **query)

    def beside(self, id: str) -> str:
        """Return the address of another memory in the same place."""
        return memory_address(self.opened, id)

    def tagged(self, tag: str) -> str:
        """Return the address of the memories with *tag* in the same place."""
        return f"/memories?{urlencode({'tag': tag} | place_query(self.opened))}"

    @property
    def said(self) -> datetime | None:
        """Time when it was said, or else written."""
        return self.memory.occurred_at or self.memory.recorded_at

    @property
    def who(self) -> str:
        """Name of whoever said it."""
        memory = self.memory
        names = {"user": "You", "assistant": "Assistant", "tool": "A program", "document": "A document"}
        return memory.speaker or names.get(memory.role or memory.actor, memory.role or memory.actor)

    @property
    def client(self) -> str:
        """Program through which it came here."""
        return str(self.memory.metadata.get(ORIGIN, ""))

    @property
    def demoted(self) -> str:
        """Reason why it is not recalled by default; "" where it is."""
        judged = with_utterance(self.memory)
        if judged.is_evidence or judged.utterance is None:
            return "" if judged.is_evidence else "set aside"
        return "set aside" if self.memory.evidence is False else judged.utterance.value

    @property
    def has_ended(self) -> bool:
        """Return whether it holds no longer."""
        end = self.memory.valid_to
        return end is not None and end <= datetime.now(UTC)

    @property
    def has_expired(self) -> bool:
        """Return whether its time has run out."""
        end = self.memory.expires_at
        return end is not None and end <= datetime.now(UTC)


def memory_address(opened: OpenedMemory, id: str, part: str = "", **query: str) -> str:
    """Return the address of the page of a memory in the place *opened*, or of a *part* of it."""
    words = urlencode(query | place_query(opened))
    return f"/memories/{quote(id, safe='')}{part}" + (f"?{words}" if words else "")


def reason_of(hit: Hit, question: str) -> str:
    """Return in words why *question* found *hit*."""
    exact = [match.word for match in hit.matched if match.similarity >= _EXACT_SIMILARITY]
    near = [f"“{match.word}” is near “{match.by}”" for match in hit.matched if match.similarity < _EXACT_SIMILARITY]
    exact.sort(key=question.casefold().find)
    says = [f"says {', '.join(f'“{word}”' for word in exact)}"] if exact else []
    if hit.parts.get("cosine", 0.0) >= _NEAR_MEANING:
        says.append("means something close to it")
    return "; ".join([*says, *near[:2]]) or "the nearest there is"


@router.get("/memories")
async def memories(request: Request, opened: Opened, chosen: FilterQuery, after: str | None = None) -> Response:
    """Show what a search finds, or all memories by time."""
    page, question = Page.of(request), chosen.q.strip()
    if chosen.state not in _STATES:
        raise HTTPException(422, "There is no such filter.")
    narrowed: dict[str, Any] = {"where": chosen.where(page), "tags": (chosen.tag,) if chosen.tag else ()}
    shared = await shared_memories(request)
    values: dict[str, Any] = {"chosen": chosen, "shared": [one.namespace for one in shared]}
    values |= {"next": None, "total": None, "far": (), "doubt": None, "notes": ()}
    if question or chosen.document:
        partitions = ("documents",) if chosen.document else ("conversation",)
        places = [opened] if chosen.place is not None else [opened, *shared]
        values |= await _found(places, question or chosen.document, question, partitions=partitions, **narrowed)
    else:
        narrowed |= {"expired": True} if chosen.state == "expired" else {}
        listed = await opened.desk.page(after=after, limit=_PER_PAGE, **narrowed)
        values |= {"rows": [Row(memory, opened) for memory in listed], "next": listed.next}
        values["total"] = await opened.desk.count(**narrowed)
    days = [None if row.said is None else page.local(row.said).date() for row in values["rows"]]
    template = "memories.html" if not is_partial(request) else "memory_rows.html" if after else "memory_results.html"
    return render(request, template, days=days, **values)


async def _found(places: Sequence[OpenedMemory], wanted: str, question: str, **narrowed: Any) -> dict[str, Any]:
    """Return for a template what *wanted* finds in *places*, best first; the least near of it apart."""
    results = await asyncio.gather(
        *(place.desk.recall(wanted, _FOUND, explain=True, all_utterances=True, **narrowed) for place in places)
    )
    hits = [(hit, place) for place, found in zip(places, results, strict=True) for hit in found]
    hits.sort(key=lambda found: -found[0].score)
    least = _NEAR_SHARE * max((hit.score for hit, _ in hits), default=0.0)
    every = [Row(hit.memory, place, hit, reason_of(hit, question)) for hit, place in hits[:_FOUND]]
    near = sum(hit.score >= least for hit, _ in hits[:_FOUND]) or len(every)
    doubts = [found.abstain for found in results if len(found)]
    return {
        "rows": every[:near],
        "far": every[near:],
        "doubt": doubts[0] if doubts and None not in doubts else None,
        "notes": tuple(dict.fromkeys(note for found in results for note in found.notes)),
    }


@router.get("/memories/filters")
async def filters(request: Request, opened: Opened, chosen: FilterQuery) -> Response:
    """Show what memories can be narrowed by."""
    stats = await opened.memory.stats(namespace=opened.namespace)
    return render(request, "memory_filters.html", chosen=chosen, kinds=sorted(stats.kinds), tags=sorted(stats.tags))


@router.post("/memories")
async def remember(opened: Opened, text: Text, tags: Line = "", sensitive: Annotated[bool, Form()] = False) -> Response:
    """Keep what a person wrote."""
    memory = Memory(text, tags=_words(tags), sensitive=sensitive)
    report = await opened.desk.remember(Person(), memory)
    if not report.stored and report.of is None:
        raise HTTPException(422, f"Not kept: {report.reason or report.outcome.value}.")
    path, known = f"/memories/{quote(report.of or report.id, safe='')}", None if report.stored else "1"
    return go_to(opened, path, done=report.operation, known=known)


@router.get("/memories/conflicts")
async def conflicts(request: Request, opened: Opened) -> Response:
    """Show memories that contradict each other, side by side; all are compared, so they come after the page."""
    if not is_partial(request):
        return render(request, "conflicts.html", **await done(opened.desk, request))
    found = await opened.desk.conflicts(_CONFLICTS + 1)
    rows = [[Row(memory, opened) for memory in conflict.memories] for conflict in found[:_CONFLICTS]]
    return render(request, "conflict_list.html", conflicts=rows, more=len(found) > _CONFLICTS)


@router.post("/memories/conflicts")
async def settle(opened: Opened, ids: Annotated[list[str], Form()], keep: Annotated[str, Form()]) -> Response:
    """Let one of contradicting memories hold."""
    operation = await opened.desk.settle(ids, keep)
    return go_to(opened, "/memories/conflicts", done=operation.id)


@router.get("/memories/changes")
async def changes(request: Request, opened: Opened, before: str | None = None) -> Response:
    """Show what was done, the newest first."""
    desk = opened.desk
    operations = await desk.operations(before=before, limit=_PER_PAGE)
    ids = list(dict.fromkeys(change.id for operation in operations for change in operation.changes[:3]))
    known = {memory.id: Row(memory, opened) for memory in await desk.get(ids) if memory is not None} if ids else {}
    next_before = operations[-1].id if len(operations) == _PER_PAGE else None
    return render(
        request, "changes.html", operations=operations, known=known, next=next_before, **await done(desk, request)
    )


@router.post("/memories/changes")
async def undo(opened: Opened, operation: Annotated[str, Form()]) -> Response:
    """Take back what was done."""
    undone = await opened.desk.undo(operation)
    first = next((change.id for change in undone.changes if not change.gone), None)
    (memory,) = await opened.desk.get([first]) if first is not None else [None]
    path = "/memories/changes" if memory is None else f"/memories/{quote(memory.id, safe='')}"
    return go_to(opened, path, done=undone.id)


@router.get("/memories/{id}")
async def memory(
    request: Request, opened: Opened, id: str, question: str = "", known: str = "", stale: str = ""
) -> Response:
    """Show one memory, and why a *question* does not find it."""
    desk = opened.desk
    shown = await one(desk, id)
    if shown.source is not None and shown.source.document is not None:
        return go_to(opened, "/documents/passage", id=shown.id)
    if is_partial(request):
        return render(request, "memory_part.html", row=Row(shown, opened))
    why = await desk.why_not(question, shown.id, _FOUND) if question.strip() else None
    return render(request, "memory.html", **await _memory_values(opened, shown), question=question, why=why,
                  known=bool(known), stale=stale, **await done(desk, request))  # fmt: skip


async def _memory_values(opened: OpenedMemory, shown: Memory) -> dict[str, Any]:
    desk, of = opened.desk, shown.id.partition("@")[0]
    history = await desk.history(of)
    versions = [Row(version, opened) for version in history]
    related = [known for known in await desk.get(shown.derived_from) if known is not None] if shown.derived_from else []
    return {
        "row": Row(shown, opened),
        "is_version": "@" in shown.id,
        "now": memory_address(opened, of),
        "versions": list(zip(versions, [*(row.memory.text for row in versions[1:]), None], strict=True)),
        "operations": history.operations,
        "derived_from": [Row(known, opened) for known in related],
    }


@router.post("/memories/{id}/correct")
async def correct(
    opened: Opened, id: str, text: Text, revision: Annotated[int, Form()], about: Line = "",
    sensitive: Annotated[bool, Form()] = False,
) -> Response:  # fmt: skip
    """Put a memory right, unless it was changed since it was shown."""
    desk = opened.desk
    shown = await one(desk, id)
    path = f"/memories/{quote(shown.id, safe='')}"
    if text.strip() == shown.text.strip() and about.strip() == shown.about and sensitive == shown.sensitive:
        return go_to(opened, path)
    line = about.strip() if about.strip() != shown.about else None
    try:
        change = await desk.correct(Person(), shown.id, text.strip(), about=line, expect=revision, sensitive=sensitive)
    except RevisionConflict:
        return go_to(opened, path, stale=text[:1_000])
    assert change.report is not None
    return go_to(opened, path, done=change.report.operation)


@router.post("/memories/{id}/mark")
async def mark(
    request: Request,
    opened: Opened,
    id: str,
    mark: Annotated[Mark, Form()],
    value: Annotated[str, Form(max_length=1_000)] = "",
) -> Response:
    """Set a mark of a memory."""
    desk = opened.desk
    shown = await one(desk, id)
    operation = await desk.mark(mark, [shown.id], *_values(request, mark, value))
    if is_partial(request):
        row = Row(await one(desk, shown.id), opened)
        return render(request, "memory_marked.html", row=row, operation=operation)
    return go_to(opened, f"/memories/{quote(shown.id, safe='')}", done=None if operation is None else operation.id)


def _values(request: Request, mark: str, value: str) -> Sequence[object]:
    if mark in ("tag", "untag"):
        return (_words(value),)
    if mark == "set_importance":
        return (float(value) if value.replace(".", "", 1).isdigit() else None,)
    if mark == "expire":
        return (_end_of_day(request, value),)
    return ()


@router.post("/memories/{id}/end")
async def end(request: Request, opened: Opened, id: str, day: Line = "") -> Response:
    """Set the day until which a memory holds; no day: it holds without end."""
    shown = await one(opened.desk, id)
    moment = _end_of_day(request, day)
    at = None if moment is None else min(moment, datetime.now(UTC))
    report = await opened.memory.end(shown.id, at, namespace=opened.namespace)
    return go_to(opened, f"/memories/{quote(shown.id, safe='')}", done=report.operation)


def _end_of_day(request: Request, text: str) -> datetime | None:
    day = _day_of(text)
    if day is None:
        return None
    return datetime.combine(day + timedelta(days=1), time(), zone_of_browser(request)).astimezone(UTC)


@router.get("/memories/{id}/forget")
async def forget_plan(request: Request, opened: Opened, id: str) -> Response:
    """Show what goes along with a memory before it goes."""
    if not opened.writes:
        raise NotPermitted("you may read here, and change nothing")
    return await _show_plan(request, opened, await one(opened.desk, id))


async def _show_plan(request: Request, opened: OpenedMemory, shown: Memory, *, changed: bool = False) -> Response:
    change = await opened.desk.forget(Person(), [shown.id])
    others = [Row(known, opened) for known in change.concerned if known.id != shown.id and opened.desk.may_show(known)]
    return render(
        request,
        "forget.html",
        row=Row(shown, opened),
        others=others,
        plan=change.receipt,
        confirm=change.token or "",
        changed=changed,
    )


@router.post("/memories/{id}/forget")
async def forget(
    request: Request, opened: Opened, id: str, confirm: Annotated[str, Form(max_length=100)],
    for_good: Annotated[bool, Form()] = False,
) -> Response:  # fmt: skip
    """Forget what was shown; where something of it has changed since, it is shown anew."""
    (shown,) = await opened.desk.get([id])
    if shown is None:  # the form was sent twice
        return go_to(opened, "/memories/changes")
    change = await opened.desk.forget(Person(), [shown.id], confirm=confirm, grace=None if for_good else _GRACE)
    if not change.done:
        return await _show_plan(request, opened, shown, changed=True)
    assert change.receipt is not None
    operation = None if for_good else change.receipt.operation
    return go_to(opened, "/memories/changes", done=operation, gone="1" if for_good else None)


async def one(desk: MemoryDesk, id: str) -> Memory:
    """Return the memory *id*, or raise the error that a person sees."""
    (shown,) = await desk.get([id])
    if shown is None:
        raise HTTPException(404, "There is no such memory, or it was forgotten.")
    return shown


async def done(desk: MemoryDesk, request: Request) -> dict[str, Any]:
    """Return for a template the operation that has brought the browser here."""
    wanted = request.query_params.get("done", "")
    recent = await desk.operations(limit=20) if wanted else ()
    operation = next((operation for operation in recent if operation.id == wanted), None)
    return {"done": operation, "gone": "gone" in request.query_params}


def _words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.strip().lstrip("#") for word in text.replace(",", " ").split() if word.strip("# ")))
