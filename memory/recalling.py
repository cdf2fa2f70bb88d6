"""The part of long-term memory's face that answers questions: recall, and why something was not recalled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import TypeVar, Unpack

from memory.errors import ArgumentError, translating
from memory.lanes import CONVERSATION, DOCUMENTS
from memory.recall.hooked import Worded, deeper, reranked, worded
from memory.recall.hooks import RecallHooks
from memory.recall.options import RecallOptions
from memory.recall.query import Around, Query, check_question
from memory.recall.recall import Recaller
from memory.records import Found, Stage, WhyNot
from memory.scopes import Scopes, filter_of
from memory.times import Clock, aware
from memory.tokens import default_counter
from memory.write.checking import names, texts
from memory.write.embedding import Embedding
from vectorstore import Filter, SpaceChanged

T = TypeVar("T")


@translating
class Recalling:
    """What ``LongTermMemory`` finds again."""

    clock: Clock
    zone: tzinfo | None
    embedding: Embedding
    _recaller: Recaller
    _hooks: RecallHooks | None
    _counter: Callable[[str], int] | None
    _offline: bool

    async def recall(
        self,
        question: str,
        k: int = 10,
        *,
        context: Sequence[str] = (),
        namespace: str | Sequence[str] = "",
        where: Filter | None = None,
        tags: Sequence[str] = (),
        scopes: Scopes | None = None,
        as_of: datetime | None = None,
        known_at: datetime | None = None,
        token_budget: int | None = None,
        counter: Callable[[str], int] | None = None,
        explain: bool = False,
        lanes: Sequence[str] = (CONVERSATION, DOCUMENTS),
        collections: Sequence[str] | None = None,
        around: Around = 0,
        hooks: RecallHooks | None = None,
    ) -> Found:
        """Find what is remembered about *question*, best first.

        *context* is what was said before, oldest first: a question that leans on it ("and when was that?") is asked
        together with it. Several namespaces are searched when several are named, each ranked by its own statistics.
        *tags*: any of them; *scopes*: all of them, as ``{"project": "atlas"}`` or with a list of values for any.
        *as_of* asks for what held then, *known_at* for what was recorded by then. *around* gives each hit so
        many turns of its session, or passages of its document, on each side, or of a conversation its whole "exchange",
        inside the *token_budget*. *hooks* stand in
        the place of those given when the memory was opened. Without an embedder, or when it fails, words alone decide.
        ``Found.notes`` say what was done so.
        """
        hooks = self._hooks_for(hooks)
        query, notes = await self._asked(
            question,
            k,
            context=context,
            namespace=namespace,
            where=where,
            tags=tags,
            scopes=scopes,
            as_of=as_of,
            known_at=known_at,
            token_budget=token_budget,
            counter=counter,
            explain=explain,
            lanes=lanes,
            collections=collections,
            around=around,
            hooks=hooks,
        )
        found, query, problem = await self._found(query, hooks)
        notes += [] if problem is None else [problem]
        if query.around and found.hits:
            found = await asyncio.to_thread(self._recaller.widened, query, found)
        return replace(found, notes=(*found.notes, *notes)) if notes else found

    async def why_not(self, question: str, id: str, k: int = 10, **options: Unpack[RecallOptions]) -> WhyNot:
        """Say why ``recall(question, k, **options)`` does not give the memory *id*, or at which place it does.

        The answer names the first stage that stopped it and its places by words, by vector and in the ranking.
        A store with data alone raises ``UnsupportedError``.
        """
        (name,) = names([id], "id")
        hooks = self._hooks_for(options.get("hooks"))
        options["hooks"] = hooks
        query, _ = await self._asked(question, k, **options)
        answer, query, _ = await self._searched(lambda one: self._recaller.why_not(one, name), query)
        if hooks is None or hooks.rerank is None or answer.rank is None:
            return answer
        found, _, _ = await self._found(query, hooks)
        at = next((at for at, hit in enumerate(found, start=1) if hit.memory.id == name), None)
        if at is not None:
            return replace(answer, stage=Stage.FOUND, reason=f"hit {at} of {len(found)}, as the reranker ordered them")
        if answer.stage is Stage.FOUND:
            return replace(answer, stage=Stage.RANK, reason=f"ranked {answer.rank}; the reranker put others before it")
        return answer

    async def _found(self, query: Query, hooks: RecallHooks | None) -> tuple[Found, Query, str | None]:
        deep = deeper(query, hooks)
        found, searched, problem = await self._searched(self._recaller.recall, deep)
        if hooks is not None and deep is not query:
            found = await reranked(query, found, hooks)
        query = replace(query, vectors=searched.vectors)
        return found, query, problem

    async def _searched(self, search: Callable[[Query], T], query: Query) -> tuple[T, Query, str | None]:
        """Search; once more where the file was switched to other vectors, with those, or a note that there are none.

        The query that was answered comes back with the answer.
        """
        try:
            return await asyncio.to_thread(search, query), query, None
        except SpaceChanged:
            await asyncio.to_thread(self.embedding.follow)
            vectors, problem = await self.embedding.queries([*query.vectors])
            query = replace(query, vectors=vectors)
            return await asyncio.to_thread(search, query), query, problem

    async def _asked(
        self, question: str, k: int, *, explain: bool = False, **options: Unpack[RecallOptions]
    ) -> tuple[Query, list[str]]:
        """Return what is asked, with the vectors of its wordings; noted is what was done with the question."""
        check_question(question)
        namespace, counter = options.get("namespace", ""), options.get("counter")
        collections, as_of, known_at = options.get("collections"), options.get("as_of"), options.get("known_at")
        context, hooks = texts(options.get("context", ()), "context"), options.get("hooks")
        query = Query(
            text=question,
            now=aware(self.clock(), self.zone),
            namespaces=(namespace,) if isinstance(namespace, str) else tuple(namespace),
            lanes=tuple(options.get("lanes", (CONVERSATION, DOCUMENTS))),
            collections=None if collections is None else tuple(collections),
            k=k,
            where=filter_of(options.get("scopes"), (), options.get("where")),
            tags=names(options.get("tags", ()), "tags"),
            as_of=None if as_of is None else aware(as_of, self.zone, argument="as_of"),
            known_at=None if known_at is None else aware(known_at, self.zone, argument="known_at"),
            token_budget=options.get("token_budget"),
            counter=self._count if counter is None else counter,
            explain=explain,
            around=options.get("around", 0),
        )
        said = Worded(question) if hooks is None else await worded(question, context, hooks)
        leant_on = self._recaller.leant_on(said.text, context)
        query = replace(query, text=said.text, context=leant_on, wordings=said.wordings)
        every = (query.asked, *(one.text for one in query.wordings))
        wordings = await asyncio.to_thread(self._wordings, query, every)
        vectors, problem = await self.embedding.queries(wordings)
        notes = [f"asked together with what it leans on: {' / '.join(leant_on)}"] if leant_on else []
        notes += [*said.notes, *([] if problem is None else [problem])]
        return replace(query, vectors=vectors), notes

    def _wordings(self, query: Query, every: Sequence[str]) -> tuple[str, ...]:
        found = (self._recaller.wordings(one, namespaces=query.namespaces, lanes=query.lanes) for one in every)
        return tuple(dict.fromkeys(text for wordings in found for text in wordings))

    def _hooks_for(self, given: RecallHooks | None) -> RecallHooks | None:
        if given is not None and not isinstance(given, RecallHooks):
            raise ArgumentError("hooks", given, "a RecallHooks is needed")
        return self._hooks if given is None else given

    def _count(self, text: str) -> int:
        if self._counter is None:
            self._counter = default_counter(offline=self._offline).count
        return self._counter(text)
