"""Whole contracts: ``VectorStoreContract`` for the data, ``LifecycleContract`` for what lasts."""

from __future__ import annotations

from tellback.vectorstore.testing.durability_contract import DurabilityContract
from tellback.vectorstore.testing.filter_contract import DeclaredFieldsContract
from tellback.vectorstore.testing.multi_handle_contract import ReopenContract, SharedSpaceContract, SharedWritesContract
from tellback.vectorstore.testing.namespace_contract import NamespaceContract
from tellback.vectorstore.testing.search_contract import SearchContract, TextContract
from tellback.vectorstore.testing.space_contract import SpaceFillContract, SpaceSwitchContract
from tellback.vectorstore.testing.validation_contract import ValidationContract
from tellback.vectorstore.testing.view_contract import ViewContract
from tellback.vectorstore.testing.write_contract import DeleteContract, UpdateContract, WriteContract


class VectorStoreContract(
    WriteContract,
    ValidationContract,
    UpdateContract,
    SearchContract,
    TextContract,
    DeleteContract,
    NamespaceContract,
    ReopenContract,
    SharedWritesContract,
):
    """All of ``VectorStore``."""


class LifecycleContract(
    ViewContract,
    DurabilityContract,
    SpaceFillContract,
    SpaceSwitchContract,
    SharedSpaceContract,
    DeclaredFieldsContract,
):
    """Contract of what ``LifecycleStore`` adds."""
