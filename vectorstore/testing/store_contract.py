"""Whole contracts: ``VectorStoreContract`` for the data, ``LifecycleContract`` for what lasts."""

from __future__ import annotations

from vectorstore.testing.delete_contract import DeletingContract
from vectorstore.testing.durability_contract import LastingContract
from vectorstore.testing.filter_contract import FieldsContract
from vectorstore.testing.multi_handle_contract import ClosingContract, FollowingContract, SharingContract
from vectorstore.testing.namespace_contract import NamespaceContract
from vectorstore.testing.search_contract import SearchContract
from vectorstore.testing.space_contract import FillingContract, SwitchingContract
from vectorstore.testing.text_contract import TextContract
from vectorstore.testing.validation_contract import RefusingContract
from vectorstore.testing.view_contract import ReadingContract
from vectorstore.testing.write_contract import UpdatingContract, WritingContract


class VectorStoreContract(
    WritingContract,
    RefusingContract,
    UpdatingContract,
    SearchContract,
    TextContract,
    DeletingContract,
    NamespaceContract,
    ClosingContract,
    FollowingContract,
):
    """All of ``VectorStore``."""


class LifecycleContract(
    ReadingContract,
    LastingContract,
    FillingContract,
    SwitchingContract,
    SharingContract,
    FieldsContract,
):
    """What ``LifecycleStore`` adds."""
