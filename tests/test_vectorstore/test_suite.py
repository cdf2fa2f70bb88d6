"""The shipped contract suite: its requirements, its skips, and faulty stores that it catches."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT_PYTEST = """
import sys
sys.modules["pytest"] = None
from tellback.agent.testing import Reply, ScriptedProvider
from tellback.vectorstore import MissingExtra
from tellback.vectorstore.testing import ModelStore
for suite in (
    "agent.testing import ProviderContract",
    "memory.testing import EmbedderContract",
    "vectorstore.testing import StoreContract",
):
    try:
        exec("from tellback." + suite)
    except MissingExtra as error:
        print(error)
"""

A_USER_S_TESTS = """
from tellback.vectorstore.testing import FilterContract, ModelStore, VectorStoreContract

class Broken(ModelStore):
    def search(self, vector, k=10, *, where=None, **options):
        found = super().search(vector, k, **options)           # top-k before the filter
        kept = super().search(vector, k, where=where, **options)
        return [match for match in found if match.entry.id in {one.entry.id for one in kept}]

    def put_vectors(self, vectors, *, namespace="", expect=None):
        return super().put_vectors(vectors, namespace=namespace)   # expectations ignored

class TestBroken(VectorStoreContract, FilterContract):
    lacks = {"test_threads_share_a_store": "it is for one thread"}

    def make_store(self, path, *, space, fields=()):
        return Broken(space=space, fields=fields)
"""

CHOSEN = "selective or unexpected or threads or opened_again or tie_by_id or read_back"


@pytest.mark.slow
def test_without_pytest_the_suites_alone_are_missing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PYTEST],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        env=_environment(),
    )
    needs = (
        "tellback.agent.testing.ProviderContract",
        "tellback.memory.testing",
        "tellback.vectorstore.testing.StoreContract",
    )
    lines = done.stdout.splitlines()
    assert [line.partition(" needs the extra 'dev': ")[0] for line in lines] == [*needs]
    assert all(re.search(r"pip install .*\[dev\]", line) for line in lines)


@pytest.mark.slow
def test_the_contract_suite_finds_the_faults_of_a_users_store(tmp_path: Path) -> None:
    tests = tmp_path / "test_broken.py"
    tests.write_text(A_USER_S_TESTS)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-ra",
        "-p",
        "no:cacheprovider",
        "-k",
        CHOSEN,
        str(tests),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300, cwd=tmp_path, env=_environment()
    )
    failed = {
        line.split("::")[2].split("[")[0].split(" ")[0]
        for line in done.stdout.splitlines()
        if line.startswith("FAILED")
    }
    assert failed == {
        "test_a_selective_filter_still_fills_k",
        "test_an_unexpected_revision_stops_the_whole_write",
    }
    assert "it is for one thread" in done.stdout
    assert "does not persist" in done.stdout
    assert " passed" in done.stdout


def _environment() -> dict[str, str]:
    root = Path(__file__).resolve().parents[2]
    return {
        "PYTHONPATH": str(root),
        "PATH": "",
        "HOME": str(root / "nowhere"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
