"""The contracts whole: ``VectorStoreContract`` for the data, ``LifecycleContract`` for what lasts."""

from __future__ import annotations

from vectorstore.testing.closing_contract import ClosingContract
from vectorstore.testing.deleting_contract import DeletingContract
from vectorstore.testing.fields_contract import FieldsContract
from vectorstore.testing.filling_contract import FillingContract
from vectorstore.testing.following_contract import FollowingContract
from vectorstore.testing.lasting_contract import LastingContract
from vectorstore.testing.namespace_contract import NamespaceContract
from vectorstore.testing.reading_contract import ReadingContract
from vectorstore.testing.refusing_contract import RefusingContract
from vectorstore.testing.search_contract import SearchContract
from vectorstore.testing.sharing_contract import SharingContract
from vectorstore.testing.switching_contract import SwitchingContract
from vectorstore.testing.text_contract import TextContract
from vectorstore.testing.updating_contract import UpdatingContract
from vectorstore.testing.writing_contract import WritingContract


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
