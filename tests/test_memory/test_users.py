"""Users of a memory: tokens that are kept as hashes, shares, quotas, and the name in each operation.

Inner parts, on no face: ``tellback.memory.internals``.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tellback.memory import ArgumentError, LongTermMemory, migrate_memory, open_memory, salvage_memory
from tellback.memory.internals import Quota, User, Users
from tellback.vectorstore.sqlite import InMemoryDatabase
from tests.support.homes import SERVER_HOME
from tests.support.postgres import PostgresServer

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["file", SERVER_HOME])
async def memory(request: pytest.FixtureRequest, tmp_path: Path):
    place = str(tmp_path / "m.db")
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        place = server.address(tmp_path)
    opened = open_memory(place, choose_local=False)
    yield opened
    await opened.close()


async def test_a_user_is_found_by_their_token_alone_which_is_in_no_byte_of_the_file(tmp_path: Path) -> None:
    memory = open_memory(tmp_path / "m.db", choose_local=False)
    users = Users(memory.database)
    token = users.add(User("ana", "ana"))
    assert users.by_token(token) == users.get("ana")
    assert users.by_token(token[:-1]) is users.by_token("") is None
    newer = users.renew_token("ana")
    assert (users.by_token(token), users.by_token(newer)) == (None, users.get("ana"))
    await memory.close()
    stored = (tmp_path / "m.db").read_bytes()
    assert token.encode() not in stored
    assert newer.encode() not in stored


async def test_users_have_quotas_and_shares_until_they_are_removed(memory: LongTermMemory) -> None:
    users = Users(memory.database)
    users.add(User("ana", "ana", quota=Quota(memories=5)))
    token = users.add(User("ben", "ben-notes", "reader"))
    users.set_quota("ben", Quota(requests=10))
    users.share("family", "ana", "write")
    users.share("family", "ben", "read")
    users.share("ana", "ben", "write")
    users.share("ana", "ben", "read")
    assert [(user.name, user.role, user.quota) for user in users.list()] == [
        ("ana", "member", Quota(memories=5)),
        ("ben", "reader", Quota(requests=10)),
    ]
    assert users.shares("ben") == {"ana": "read", "family": "read"}
    users.share("family", "ben", None)
    users.remove("ana")
    assert [user.name for user in users.list()] == ["ben"]
    assert users.shares("ben") == {}
    users.remove("ben")
    assert users.by_token(token) is None


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("name", lambda users: users.add(User("ana", "other"))),
        ("name", lambda users: users.add(User(" ", "other"))),
        ("name", lambda users: users.add(User("a\nb", "other"))),
        ("name", lambda users: users.get("nobody")),
        ("name", lambda users: users.renew_token("nobody")),
        ("name", lambda users: users.share("family", "nobody", "read")),
        ("namespace", lambda users: users.add(User("ben", "ana"))),
        ("namespace", lambda users: users.share("ana", "ana", "read")),
        ("access", lambda users: users.share("family", "ana", "own")),
        ("role", lambda users: users.add(User("ben", "ben", "king"))),
        ("memories", lambda users: users.set_quota("ana", Quota(memories=0))),
    ],
)
def test_what_no_user_can_be_is_named(name: str, change) -> None:
    users = Users(InMemoryDatabase())
    users.add(User("ana", "ana"))
    with pytest.raises(ArgumentError) as refused:
        change(users)
    assert refused.value.argument == name
    assert [(user.name, user.quota) for user in users.list()] == [("ana", Quota())]


async def test_each_operation_of_a_signed_memory_names_its_user(memory: LongTermMemory) -> None:
    ana = memory.signed_by("ana")
    first = await ana.remember("The key is in the jar.", namespace="family")
    await memory.remember("The bin goes out on Friday.", namespace="family")
    await ana.correct(first.id, "The key is in the tin.", namespace="family")
    await memory.signed_by("ben").pin([first.id], namespace="family")
    undone = await ana.undo((await memory.operations(namespace="family"))[0].id, namespace="family")
    receipt = await ana.forget([first.id], namespace="family")
    operations = await memory.operations(namespace="family")
    assert [(done.kind, done.user) for done in operations] == [
        ("forget", "ana"),
        ("undo", "ana"),
        ("pin", "ben"),
        ("correct", "ana"),
        ("remember", ""),
        ("remember", "ana"),
    ]
    assert undone.user == "ana"
    assert receipt.memories == (first.id,)


async def test_users_go_along_to_another_home_and_out_of_a_damaged_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tellback.vectorstore.sqlite.salvage._FEW_KEYS", 1000)  # no table here has more rows
    memory = open_memory(tmp_path / "m.db", choose_local=False)
    users = Users(memory.database)
    token = users.add(User("ana", "ana"))
    users.share("family", "ana", "read")
    await memory.signed_by("ana").remember("The key is in the jar.", namespace="ana")
    await memory.close()
    migrate_memory(tmp_path / "m.db", tmp_path / "new.db")
    salvage_memory(tmp_path / "m.db", tmp_path / "saved.db")
    for name in ("new.db", "saved.db"):
        moved = open_memory(tmp_path / name, choose_local=False)
        found = Users(moved.database)
        assert found.by_token(token) == found.get("ana")
        assert found.shares("ana") == {"family": "read"}
        assert [done.user for done in await moved.operations(namespace="ana")] == ["ana"]
        await moved.close()


async def test_what_is_on_its_way_and_spent_words_are_known_to_all_until_they_expire(memory: LongTermMemory) -> None:
    users, others = Users(memory.database), Users(memory.database)
    users.add(User("ana", "ana"))
    later = int(datetime.now(UTC).timestamp()) + 600
    numbers = [users.reserve("ana", until, {"memories": 2}) for until in (later, 1, later)]
    assert others.reserved("ana", numbers[0]) == {}
    assert others.reserved("ana", numbers[2]) == {"memories": 2, "documents": 0, "bytes": 0}  # one has expired
    others.release("ana", numbers[0])
    assert users.reserved("ana", numbers[2]) == {}
    assert [users.spend("word", later, later - 600), others.spend("word", later, later - 600)] == [True, False]
    assert (others.is_spent("word"), others.is_spent("another")) == (True, False)
    users.spend("another", later * 2, later + 1)
    assert not others.is_spent("word")  # it has expired by itself
