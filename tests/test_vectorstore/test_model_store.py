"""The plain model keeps the contract that it is compared by."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from tellback.vectorstore import Space
from tellback.vectorstore.testing import FilterContract, ModelStore, VectorStoreContract


@pytest.mark.slow
class TestModelStore(VectorStoreContract, FilterContract):
    lacks: ClassVar[Mapping[str, str]] = {
        "test_threads_share_a_store": "the model is for one thread",
        "test_a_reader_sees_whole_batches_and_each_answer_is_of_one_state": "the model is for one thread",
        "test_a_scan_ends_with_its_store": "a scan of the model is a snapshot",
    }

    def make_store(self, path: Path, *, space: Space | None, fields: tuple[str, ...] = ()) -> ModelStore:
        return ModelStore(space=space, fields=fields)
