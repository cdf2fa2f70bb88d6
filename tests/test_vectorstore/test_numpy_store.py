"""The numpy store keeps the contract; what lasts of it is its snapshot."""

from pathlib import Path

from tellback.vectorstore import NumpyStore, Space, VectorStore
from tellback.vectorstore.testing import FilterContract, LifecycleContract, VectorStoreContract


class TestNumpyStore(VectorStoreContract, FilterContract, LifecycleContract):
    persists = True

    def make_store(self, path: Path, *, space: Space | None, fields: tuple[str, ...] = ()) -> NumpyStore:
        return NumpyStore(space=space, fields=fields)

    def reopen(self, store: VectorStore, path: Path) -> NumpyStore:
        assert isinstance(store, NumpyStore)
        store.save(path / "memory.snapshot")
        store.close()
        return NumpyStore.open(path / "memory.snapshot")

    def restore(self, backup: Path, path: Path) -> NumpyStore:
        return NumpyStore.open(backup)
