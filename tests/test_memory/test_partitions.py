"""Names of partitions and of archived versions, which parse back to their parts.

Inner parts, on no face: ``tellback.memory.partitions``.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.memory import ArgumentError
from tellback.memory.internals import ARCHIVE, CONVERSATION, DOCUMENTS, store_namespace
from tellback.memory.partitions import archived_id, parse_store_namespace

NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=40)


@given(NAMES, NAMES)
def test_a_store_namespace_parses_back_to_namespace_partition_and_collection(namespace, collection):
    name = store_namespace(namespace, DOCUMENTS, collection)
    assert parse_store_namespace(name) == (namespace, DOCUMENTS, collection)


@given(NAMES, NAMES)
def test_two_namespaces_never_share_a_store_namespace(one, other):
    lanes = [CONVERSATION, ARCHIVE, DOCUMENTS]
    names = {store_namespace(namespace, lane) for namespace in {one, other} for lane in lanes}
    assert len(names) == len({one, other}) * len(lanes)


def test_a_namespace_with_a_slash_cannot_forge_a_partition():
    assert store_namespace("a/conversation", CONVERSATION) != store_namespace("a", CONVERSATION)
    assert parse_store_namespace(store_namespace("a/documents/x", CONVERSATION)) == (
        "a/documents/x",
        CONVERSATION,
        None,
    )


def test_the_default_namespace_is_the_empty_one():
    assert store_namespace("", CONVERSATION) == "/conversation"


@pytest.mark.parametrize("bad", ["a\0b", "\ud800", "é" * 400, None, 5])
def test_store_namespace_refuses_an_invalid_namespace(bad):
    with pytest.raises(ArgumentError, match="namespace"):
        store_namespace(bad, CONVERSATION)


def test_an_archived_version_is_named_by_its_revision():
    assert archived_id("a@b", 7) == "a@b@7"
