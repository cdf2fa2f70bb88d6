"""Memory of another machine: a server's, by its address and a token; the calls that commands, agents and hooks use.

What it does not have raises ``UnsupportedError``: the machine of the server does it.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import make_dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack, get_args
from urllib.parse import quote, urlencode

from pydantic import TypeAdapter

from tellback.agent.desk.desk import MARK_VALUES, Mark
from tellback.agent.desk.results import GivenItem
from tellback.agent.desk.values import memory_value, recall_result
from tellback.memory import (
    ArgumentError,
    Memory,
    MemoryLayerError,
    Message,
    RecallResult,
    Receipt,
    Report,
    TextBlock,
    read_receipt,
    run_sync,
)
from tellback.memory.http import HttpClient, HttpError, Timeouts
from tellback.memory.internals import (
    Conflict,
    KnownPerson,
    MemoryHistory,
    MemoryPage,
    Operation,
    Profile,
    ProfileEntry,
    SessionInfo,
    StoredMessage,
    WhyNot,
    redact_secrets,
)
from tellback.vectorstore import UnsupportedError, open_store

if TYPE_CHECKING:
    from tellback.memory import RecallOptions
    from tellback.vectorstore import Filter, VectorStore

_log = logging.getLogger(__name__)
_API: Final = "/api/v1"
_MOST: Final = 1_000
_PROMPT_CHARACTERS: Final = 8_000
"""Beginning of a prompt that is sent to the log of what was given, which the server keeps the first 500 of."""
_NOT_SENT: Final = ("actor", "approved_by", "namespace", "counter", "hooks")
_PARAMETERS: Final = {"tags": "tag", "kinds": "kind"}
"""Parameters of a request to list memories that have another name than the filter."""
ValueT = TypeVar("ValueT")


class RemoteError(MemoryLayerError):
    """The server refused a request, or cannot be reached: *title* is its name of the error."""

    def __init__(self, title: str, detail: str) -> None:
        self.title = title
        super().__init__(detail)


class RemoteMemory:
    """Memory that a server at *address* has for the user with *token*; docstrings of ``LongTermMemory`` hold here.

    A *namespace* other than "" is one that is shared with the user.
    """

    def __init__(self, address: str, token: str, *, offline: bool = False) -> None:
        self._address = address.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"}
        self._client = HttpClient(offline=offline, timeout=Timeouts(read=120, total=300))
        self.store: VectorStore = open_store("numpy:")
        self.conversations = RemoteConversations(self)
        self.given = RemoteGiven(self)
        self.tombstones = RemoteTombstones(self)

    async def call(
        self, method: str, path: str, body: object = None, *, namespace: str = "", **query: Any
    ) -> dict[str, Any]:
        """Return the answer of one call; what the server refuses is raised with its text."""
        given = {name: value for name, value in query.items() if value is not None}
        given |= {"namespace": namespace} if namespace else {}
        url = f"{self._address}{_API}{path}" + (f"?{urlencode(given, doseq=True)}" if given else "")
        data = None if body is None else json.dumps(body, default=_plain).encode()
        headers = self._headers if data is None else {**self._headers, "Content-Type": "application/json"}
        async with self._client.forward(method, url, data, headers=headers) as answer:
            content = b"".join([part async for part in answer.parts])
        try:
            told = json.loads(content)
        except ValueError:
            raise HttpError(self._address, "the answer is not JSON; is this the address of tellback serve?") from None
        if answer.status < 400:
            value: dict[str, Any] = told
            return value
        title, detail = str(told.get("title", "")), str(told.get("detail", answer.status))
        if title == "ArgumentError" or answer.status == 422:
            raise ArgumentError("request", path, detail)
        raise RemoteError(title, f"{self._address}: {detail}")

    async def recall(self, question: str, k: int = 10, **options: Unpack[RecallOptions]) -> RecallResult:
        """As ``LongTermMemory.recall``."""
        body = {"question": question, "k": k, **_sent(options)}
        return recall_result(await self.call("POST", "/recall", body, namespace=str(options.get("namespace", ""))))

    async def why_not(self, question: str, id: str, k: int = 10, **options: Unpack[RecallOptions]) -> WhyNot:
        """As ``LongTermMemory.why_not``."""
        body = {"question": question, "id": id, "k": k, **_sent(options)}
        return _value(WhyNot, await self.call("POST", "/why-not", body, namespace=str(options.get("namespace", ""))))

    async def remember(
        self, item: str | Memory, *, replaces: Sequence[str] = (), namespace: str = "", **_caller: Any
    ) -> Report:
        """As ``LongTermMemory.remember``."""
        memory = item if isinstance(item, Memory) else Memory(item)
        names: tuple[str, ...] = ("text", "about", "kind", "tags", "scopes", "speaker", "occurred_at", "expires_at")
        names += ("importance", "pinned", "sensitive", "key")
        body = {name: value for name in names if (value := getattr(memory, name)) not in (None, (), "", False)}
        body["replaces"] = [*memory.replaces, *replaces]
        return _value(Report, await self.call("POST", "/memories", body, namespace=namespace))

    async def remember_turn(
        self, session: str, messages: Sequence[Message], *, namespace: str = "", used: Sequence[str] = ()
    ) -> list[Report]:
        """As ``LongTermMemory.remember_turn``."""
        body = {"messages": [message.model_dump(mode="json") for message in messages], "used": list(used)}
        told = await self.call("POST", f"/sessions/{quote(session, safe='')}/turns", body, namespace=namespace)
        return [_value(Report, report) for report in told["reports"]]

    async def get(self, ids: Sequence[str] = (), *, namespace: str = "") -> list[Memory | None]:
        """As ``LongTermMemory.get``."""
        found = [(id, await self._get(id, namespace)) for id in ids]
        return [memory if memory and memory.id == id else None for id, memory in found]

    async def _get(self, id: str, namespace: str) -> Memory | None:
        try:
            found = await self.call("GET", f"/memories/{quote(id, safe='')}", namespace=namespace)
        except RemoteError as error:
            if "no memory has this id" in str(error):
                return None
            raise
        return memory_value(found)

    async def find_ids(self, part: str, *, namespace: str = "", limit: int = 10) -> list[str]:
        """As ``LongTermMemory.find_ids``: the one that *part* stands for."""
        found = await self._get(part, namespace)
        return [] if found is None else [found.id]

    async def list(
        self, *, order: str = "id", after: str | None = None, limit: int = 100, namespace: str = "", **filters: Any
    ) -> MemoryPage:
        """As ``LongTermMemory.list``."""
        page = {"order": order, "after": after, "limit": min(limit, _MOST)}
        told = await self.call("GET", "/memories", namespace=namespace, **page, **_query(filters))
        return MemoryPage(tuple(map(memory_value, told["memories"])), told["next"])

    async def count(self, *, namespace: str = "", **filters: Any) -> int:
        """As ``LongTermMemory.count``."""
        return int((await self.call("GET", "/memories", namespace=namespace, limit=1, **_query(filters)))["total"])

    async def stats(self, *, namespace: str = "", **selected: Any) -> Any:
        """As ``LongTermMemory.stats``, of all of it."""
        if any(selected.values()):
            raise UnsupportedError("stats of a selection", "the memory is on a server")
        told = await self.call("GET", "/stats", namespace=namespace)
        times = {name: datetime.fromisoformat(told[name]) for name in ("first", "last") if told[name]}
        return make_dataclass("Stats", told)(**{**told, **times})

    async def pinned(self, *, namespace: str = "") -> Sequence[Memory]:
        """As ``LongTermMemory.pinned``."""
        return [memory_value(found) for found in (await self.call("GET", "/profile", namespace=namespace))["pinned"]]

    async def profile(self, *, namespace: str = "", **selected: Any) -> Profile:
        """As ``LongTermMemory.profile``."""
        told = await self.call("POST", "/profile", selected, namespace=namespace)
        return Profile(tuple(map(_entry, told["known"])), told["omitted"])

    async def people(self, *, namespace: str = "", where: Filter | None = None) -> Sequence[KnownPerson]:
        """As ``LongTermMemory.people``; *where* leaves out what is sensitive."""
        listed: Any = await self.call("GET", "/people", namespace=namespace)
        people = [KnownPerson(**{**person, "memory": memory_value(person["memory"])}) for person in listed]
        return [person for person in people if where is None or not person.memory.sensitive]

    async def correct(self, id: str, text: str, *, namespace: str = "", **fields: Any) -> Report:
        """As ``LongTermMemory.correct``."""
        names = ("about", "valid_from", "valid_to", "sensitive")
        body = {name: fields[name] for name in names if fields.get(name) is not None}
        told = await self.call("PUT", f"/memories/{quote(id, safe='')}", {"text": text, **body}, namespace=namespace)
        return _value(Report, told)

    async def describe(self, lines: Mapping[str, str], *, namespace: str = "", **_caller: Any) -> Sequence[Report]:
        """As ``LongTermMemory.describe``, each line by itself."""
        places = {f"/memories/{quote(id, safe='')}/about": {"about": line} for id, line in lines.items()}
        told = [await self.call("PUT", place, line, namespace=namespace) for place, line in places.items()]
        return [_value(Report, report) for report in told]

    async def end(self, id: str, valid_to: datetime | None, *, namespace: str = "", **_caller: Any) -> Report:
        """As ``LongTermMemory.end``."""
        place = f"/memories/{quote(id, safe='')}/end"
        return _value(Report, await self.call("POST", place, {"at": valid_to}, namespace=namespace))

    async def merge(
        self, ids: Sequence[str], text: str, *, sensitive: bool = False, namespace: str = "", **_caller: Any
    ) -> Report:
        """As ``LongTermMemory.merge``."""
        body = {"ids": ids, "text": text, "sensitive": sensitive}
        return _value(Report, await self.call("POST", "/merge", body, namespace=namespace))

    async def history(self, id: str, *, namespace: str = "") -> MemoryHistory:
        """As ``LongTermMemory.history``."""
        told = await self.call("GET", f"/memories/{quote(id, safe='')}/history", namespace=namespace)
        operations = [_value(Operation, operation) for operation in told["operations"]]
        return MemoryHistory(tuple(map(memory_value, told["versions"])), tuple(operations))

    async def conflicts(self, *, namespace: str = "", limit: int = 100) -> Sequence[Conflict]:
        """As ``LongTermMemory.conflicts``."""
        told: Any = await self.call("GET", "/conflicts", namespace=namespace, limit=min(limit, _MOST))
        return [Conflict(tuple(map(memory_value, conflict["memories"]))) for conflict in told]

    async def settle(
        self, ids: Sequence[str], *, keep: str = "newest", namespace: str = "", **_caller: Any
    ) -> Operation:
        """As ``LongTermMemory.settle``."""
        told = await self.call("POST", "/conflicts/settle", {"ids": ids, "keep": keep}, namespace=namespace)
        return _value(Operation, told)

    async def _mark(
        self, mark: str, ids: Sequence[str], value: object = None, *, namespace: str = "", **_caller: Any
    ) -> Operation | None:
        """Set a *mark* as the method of ``LongTermMemory`` does that has its name."""
        body = {"mark": mark, "ids": ids} | ({MARK_VALUES[mark]: value} if mark in MARK_VALUES else {})
        told = await self.call("POST", "/marks", body, namespace=namespace)
        return None if told is None else _value(Operation, told)

    async def forget(
        self,
        ids: Sequence[str] | None = None,
        *,
        namespace: str = "",
        dry_run: bool = False,
        grace: timedelta | None = None,
        remove_backups: bool = False,
        **selectors: Any,
    ) -> Receipt:
        """As ``LongTermMemory.forget``."""
        body = {"ids": ids, **_sent(selectors), "remove_backups": remove_backups}
        body |= {} if grace is None else {"grace_days": grace / timedelta(days=1)}
        chosen = {name: value for name, value in body.items() if value is not None}
        return await self._forget(chosen, namespace, dry_run)

    async def forget_namespace(self, namespace: str, *, dry_run: bool = False, **how: Any) -> Receipt:
        """As ``LongTermMemory.forget_namespace``."""
        body = {"everything": True, "remove_backups": bool(how.get("remove_backups"))}
        return await self._forget(body, namespace, dry_run)

    async def _forget(self, body: Mapping[str, Any], namespace: str, dry_run: bool) -> Receipt:
        plan = await self.call("POST", "/forget", body, namespace=namespace)
        if not dry_run and plan["confirm"] is not None:  # a person was shown the plan before
            plan = await self.call("POST", "/forget", {**body, "confirm": plan["confirm"]}, namespace=namespace)
        return read_receipt(json.dumps(plan["receipt"]))

    async def operations(
        self, *, memory: str | None = None, before: str | None = None, limit: int = 100, namespace: str = ""
    ) -> Sequence[Operation]:
        """As ``LongTermMemory.operations``."""
        page = {"memory": memory, "before": before, "limit": min(limit, _MOST)}
        told = await self.call("GET", "/operations", namespace=namespace, **page)
        return [_value(Operation, operation) for operation in told]

    async def undo(self, operation: str, *, namespace: str = "", **_caller: Any) -> Operation:
        """As ``LongTermMemory.undo``."""
        told = await self.call("POST", f"/operations/{quote(operation, safe='')}/undo", {}, namespace=namespace)
        return _value(Operation, told)

    async def complete(self) -> int:
        """As ``LongTermMemory.complete``: the server sees to it."""
        return 0

    def redacted(self, text: str) -> str:
        """As ``LongTermMemory.redacted``: without secrets, as the server keeps it, too."""
        return redact_secrets(text)[0]

    async def similarities(self, question: str, texts: Sequence[str]) -> None:
        """As ``LongTermMemory.similarities``: no embedder of this machine has the vectors."""

    async def close(self, *, wait: float = 0.0) -> None:
        """Release the connections."""
        await self._client.aclose()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in get_args(Mark):
            return partial(self._mark, name)
        asked = "documents" if name == "erasers" else name.replace("_", " ")  # what a KnowledgeBase begins with
        raise UnsupportedError(asked, "the memory is on a server; do it on that machine")


class RemoteConversations:
    """Conversations of a memory on a server, to be read."""

    def __init__(self, memory: RemoteMemory) -> None:
        self._memory = memory

    async def sessions(self, *, namespace: str = "", limit: int | None = None) -> list[SessionInfo]:
        """As ``HistoryStorage.sessions``."""
        told = await self._memory.call("GET", "/sessions", namespace=namespace, limit=min(limit or _MOST, _MOST))
        return [_value(SessionInfo, session) for session in told]

    async def load(
        self,
        session: str,
        *,
        namespace: str = "",
        limit: int | None = None,
        offset: int = 0,
        roles: Iterable[str] | None = None,
        after: int = 0,
    ) -> list[StoredMessage]:
        """As ``HistoryStorage.load``; of messages, text is what there is here."""
        chosen, place = None if roles is None else set(roles), f"/sessions/{quote(session, safe='')}/turns"
        found: list[StoredMessage] = []
        cursor: int | None = after
        while cursor is not None:
            page = await self._memory.call("GET", place, namespace=namespace, after=cursor, limit=_MOST)
            found += map(_message, page["turns"])
            cursor = page["next"]
        kept = [one for one in found if chosen is None or one.message.role in chosen]
        kept = kept[: len(kept) - offset] if offset else kept
        return kept if limit is None else kept[len(kept) - min(limit, len(kept)) :]

    async def summary(self, session: str, name: str, *, namespace: str = "") -> None:
        """As ``HistoryStorage.summary``: none is kept here."""

    async def append(self, session: str, messages: Sequence[Message], *, namespace: str = "") -> list[int]:
        """As ``HistoryStorage.append``, in the history of the server, where they are remembered, too."""
        await self._memory.remember_turn(session, messages, namespace=namespace)
        return []


class RemoteGiven:
    """Log of what prompts were given, which the server keeps; as ``GivenLog``. Each call waits for the answer.

    Where the server permits no log, to a reader and in a shared namespace, nothing is logged.
    """

    def __init__(self, memory: RemoteMemory) -> None:
        self._memory = memory

    def record(self, namespace: str, scores: Mapping[str, float], *, client: str, session: str, prompt: str) -> None:
        """As ``GivenLog.record``; where the server is gone by then, a warning is logged here, and the answer stands."""
        body = {"scores": scores, "client": client, "session": session, "prompt": prompt[:_PROMPT_CHARACTERS]}
        try:
            self._permitted("", body, namespace)
        except (RemoteError, HttpError) as error:
            _log.warning("what a prompt was given is not logged: %s", error)

    def recent(self, namespace: str, limit: int = 20, *, before: str | None = None) -> Sequence[GivenItem]:
        """As ``GivenLog.recent``."""
        page = {"limit": min(limit, _MOST), "before": before}
        return list(map(GivenItem.of, run_sync(self._memory.call("GET", "/given", namespace=namespace, **page))))

    def mark(self, namespace: str, memory: str, *, useful: bool, giving: str | None = None) -> GivenItem:
        """As ``GivenLog.mark``."""
        body = {"memory": memory, "useful": useful, "giving": giving}
        return GivenItem.of(run_sync(self._memory.call("POST", "/given/marks", body, namespace=namespace)))

    def not_useful(self, namespace: str, prompt: str, memories: Sequence[str]) -> frozenset[str]:
        """As ``GivenLog.not_useful``."""
        body = {"prompt": prompt[:_PROMPT_CHARACTERS], "memories": memories}
        return frozenset(self._permitted("/not-useful", body, namespace) if memories else ())

    def _permitted(self, path: str, body: object, namespace: str) -> Any:
        try:
            return run_sync(self._memory.call("POST", f"/given{path}", body, namespace=namespace))
        except RemoteError as error:
            if error.title != "NotPermitted":
                raise
            return ()


class RemoteTombstones:
    """Tombstones of a memory on a server, as far as conversations are kept from here."""

    def __init__(self, memory: RemoteMemory) -> None:
        self._memory = memory
        self.key = os.urandom(32)  # confirmations of this process alone

    def words_at(self, namespace: str, text: str) -> datetime | None:
        """As ``Tombstones.words_at``; it waits for the answer."""
        if not text:
            return None
        time: Any = run_sync(self._memory.call("POST", "/forgotten", {"text": text}, namespace=namespace))
        return time and datetime.fromisoformat(time)


def _message(turn: Mapping[str, Any]) -> StoredMessage:
    fields = {name: turn[name] for name in ("role", "name", "metadata")}
    message = Message(**fields, blocks=(TextBlock(text=turn["text"]),), at=turn["said_at"])
    return StoredMessage(turn["sequence"], message, datetime.fromisoformat(turn["at"]), turn["memory"])


def _entry(found: Mapping[str, Any]) -> ProfileEntry:
    since, until = (found[name] and datetime.fromisoformat(found[name]) for name in ("since", "until"))
    return ProfileEntry(found["subject"], found["topic"], memory_value(found["memory"]), since, until)


def _value(kind: type[ValueT], told: Any) -> ValueT:
    """Return the value of the dataclass *kind* that the JSON *told* is of."""
    value: ValueT = TypeAdapter(kind).validate_python(told)
    return value


def _query(filters: Mapping[str, Any]) -> dict[str, Any]:
    """Return *filters* of a list as the parameters of a request."""
    given = {_PARAMETERS.get(name, name): value for name, value in filters.items() if value not in (None, ())}
    if (times := given.pop("between", None)) is not None:
        given["since"], given["before"] = times
    return {name: _parameter(value) for name, value in given.items()}


def _parameter(value: object) -> Any:
    if isinstance(value, bool | Mapping):
        return json.dumps(value, default=_plain)
    return [str(part) for part in value] if isinstance(value, list | tuple) else _plain(value)


def _sent(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of *options* that a request has in its body."""
    return {name: value for name, value in options.items() if name not in _NOT_SENT and value not in (None, ())}


def _plain(value: object) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value if value is None else str(value)
