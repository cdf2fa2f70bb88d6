"""A third-party store keeps the data part of the contract and names its missing operations."""

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tellback.vectorstore import LifecycleStore, Space, UnsupportedError, VectorStore, WrapperStore, missing_operations
from tellback.vectorstore.testing import FilterContract, VectorStoreContract

ROOT = Path(__file__).resolve().parents[2]


def stranger_store() -> Any:
    spec = importlib.util.spec_from_file_location("stranger_store", ROOT / "examples" / "stranger_store.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.StrangerStore


StrangerStore = stranger_store()


@pytest.mark.slow
class TestStrangerStore(VectorStoreContract, FilterContract):
    lacks: ClassVar[Mapping[str, str]] = {}

    def make_store(self, path: Path, *, space: Space | None, fields: tuple[str, ...] = ()) -> VectorStore:
        store: VectorStore = StrangerStore(space=space)
        return store


def test_the_stranger_store_is_a_vector_store_and_names_its_missing_operations() -> None:
    store = StrangerStore()
    assert isinstance(store, VectorStore)
    assert not isinstance(store, LifecycleStore)
    assert {"transaction", "view", "changes", "erase", "verify", "backup", "begin_space"} <= set(
        missing_operations(store)
    )
    for name in ("verify", "pending_erasure", "transaction"):
        with pytest.raises(UnsupportedError, match=f"{name}: StrangerStore"):
            getattr(WrapperStore(store), name)()


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *command], cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def test_the_stranger_store_example_runs(tmp_path: Path) -> None:
    done = run(str(ROOT / "examples" / "stranger_store.py"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("north\nlacks: abort_space, analyzer, backup, ")


@pytest.mark.slow
def test_the_contract_test_example_of_the_docs_passes(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "vectorstore.md").read_text(encoding="utf-8")
    (block,) = (
        code for code in re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL) if "class Test" in code
    )
    assert len(block.splitlines()) <= 25
    (tmp_path / "test_mine.py").write_text(block, encoding="utf-8")
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py", cwd=tmp_path)
    passed = re.search(r"(\d+) passed", done.stdout)
    assert done.returncode == 0, done.stdout
    assert passed is not None
    assert int(passed[1]) > 250
