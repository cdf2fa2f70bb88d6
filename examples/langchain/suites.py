"""LangChain's standard suites over the adapter, on both engines."""

import pytest
from langchain_tests.integration_tests import (
    BaseStoreAsyncTests,
    BaseStoreSyncTests,
    EmbeddingsIntegrationTests,
    VectorStoreIntegrationTests,
)
from langchain_tests.unit_tests import EmbeddingsUnitTests

from tellback_langchain import TellbackByteStore, TellbackEmbeddings, TellbackVectorStore


class VectorStoreSuite(VectorStoreIntegrationTests):
    url = "numpy:"

    @pytest.fixture
    def vectorstore(self, tmp_path):
        store = TellbackVectorStore(self.url.format(tmp_path), self.get_embeddings())
        yield store
        store.delete()


class TestNumpy(VectorStoreSuite):
    pass


class TestSqlite(VectorStoreSuite):
    url = "sqlite:///{}/store.db"


class TestEmbeddings(EmbeddingsUnitTests):
    embeddings_class = TellbackEmbeddings


class TestEmbeddingCalls(EmbeddingsIntegrationTests):
    embeddings_class = TellbackEmbeddings


class TestBytes(BaseStoreSyncTests):
    @pytest.fixture
    def kv_store(self, tmp_path):
        return TellbackByteStore(f"sqlite:///{tmp_path}/bytes.db")

    @pytest.fixture
    def three_values(self):
        return b"one", b"\x00two", b""


class TestBytesAsync(BaseStoreAsyncTests):
    @pytest.fixture
    async def kv_store(self):
        return TellbackByteStore()

    @pytest.fixture
    def three_values(self):
        return b"one", b"\x00two", b""
