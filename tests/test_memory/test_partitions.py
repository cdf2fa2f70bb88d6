import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory import ArgumentError
from memory.internals import ARCHIVE, CONVERSATION, DOCUMENTS, archived_id, parse_store_namespace, store_namespace

NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=40)


@given(NAMES, NAMES)
def test_a_lane_names_its_namespace_and_collection(namespace, collection):
    name = store_namespace(namespace, DOCUMENTS, collection)
    assert parse_store_namespace(name) == (namespace, DOCUMENTS, collection)


@given(NAMES, NAMES)
def test_two_namespaces_never_share_a_lane(one, other):
    lanes = [CONVERSATION, ARCHIVE, DOCUMENTS]
    names = {store_namespace(namespace, lane) for namespace in {one, other} for lane in lanes}
    assert len(names) == len({one, other}) * len(lanes)


def test_a_namespace_cannot_forge_a_lane():
    assert store_namespace("a/conversation", CONVERSATION) != store_namespace("a", CONVERSATION)
    assert parse_store_namespace(store_namespace("a/documents/x", CONVERSATION)) == (
        "a/documents/x",
        CONVERSATION,
        None,
    )


def test_the_default_namespace_is_the_empty_one():
    assert store_namespace("", CONVERSATION) == "/conversation"


@pytest.mark.parametrize("bad", ["a\0b", "\ud800", "é" * 400, None, 5])
def test_what_cannot_be_a_namespace_is_refused(bad):
    with pytest.raises(ArgumentError, match="namespace"):
        store_namespace(bad, CONVERSATION)


def test_an_archived_version_is_named_by_its_revision():
    assert archived_id("a@b", 7) == "a@b@7"
