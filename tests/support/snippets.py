"""Code blocks of the README and of docs/, which tests run; ``python -m tests.support.snippets`` checks their types."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLE_OUTPUT = {
    "agent_guarded.py": "the service was called 4 times",
    "agent_over_documents.py": "“A night costs 12 euros.” [1]",
    "agent_that_remembers.py": "“The spare key lies under the blue pot.” [1]",
    "agent_typed_answer.py": "Lisbon, 7 days from 03 May 2026",
    "agent_with_approval.py": "tool: the user did not approve this call",
    "agent_with_guardrail.py": "refusal: I cannot set my instructions aside.",
    "agent_with_helpers.py": "Put 238 euros aside. (4 calls of models in all)",
}
"""A line that each example prints."""
TYPED_ANSWERS = """
from typing import assert_type
from pydantic import BaseModel
from tellback.agent import Agent, RunResult

class City(BaseModel):
    name: str

async def ask(agent: Agent) -> None:
    assert_type(await agent.run("Which city?", result_type=City), RunResult[City])
    assert_type(agent.run_sync("Which city?", result_type=City).output, City | None)
    assert_type(agent.run_sync("Hello"), RunResult[None])
    assert_type(agent.run_sync("How many?", result_type=int).output, int | None)
    assert_type(agent.run_sync("Which?", result_type=list[City]).output, list[City] | None)
"""
"""A program that passes where a type checker knows the type of an answer from the type that was asked for."""
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: the *number*-th, and its code."""

    page: str
    number: int
    language: str
    code: str

    def __str__(self) -> str:
        return f"{self.page}-{self.number}-{self.language}"


def blocks() -> Iterator[Block]:
    for page in PAGES:
        for number, (language, code) in enumerate(FENCE.findall(page.read_text(encoding="utf-8")), start=1):
            yield Block(page_name(page), number, language, code)


def page_name(path: Path) -> str:
    """Return the path below docs/ without its ending: ``recall``, ``how-to/backup``; that of the README is its own."""
    docs = ROOT / "docs"
    return path.relative_to(docs if path.is_relative_to(docs) else ROOT).with_suffix("").as_posix()


def console_script(page: str) -> str:
    """Return the commands of the console blocks of *page* as one script of bash, which ends at the first failure."""
    lines = [
        line
        for block in blocks()
        if (block.page, block.language) == (page, "console")
        for line in block.code.splitlines()
    ]
    return "\n".join(["set -euo pipefail", *(line[2:] for line in lines if line.startswith("$ "))])


def check_types(folder: Path) -> int:
    """Check Python blocks, examples and ``TYPED_ANSWERS``, copied into *folder*, as a user's editor and CI would.

    Returns 0 if both checkers pass. Each file is a program of its own; basedpyright brings its own node.
    """
    for block in blocks():
        if block.language == "python":
            name = re.sub(r"\W", "_", f"{block.page}_{block.number}")
            (folder / f"{name}.py").write_text(block.code, encoding="utf-8")
    for example in (ROOT / "examples").glob("*.py"):
        (folder / f"example_{example.name}").write_bytes(example.read_bytes())
    (folder / "typed_answers.py").write_text(TYPED_ANSWERS, encoding="utf-8")
    files = sorted(str(path) for path in folder.glob("*.py"))
    configuration = folder / "pyrightconfig.json"
    configuration.write_text(
        json.dumps({"include": ["."], "extraPaths": [str(ROOT / ".links")], "typeCheckingMode": "standard"}),
        encoding="utf-8",
    )
    checkers = [
        ["mypy", "--strict", "--cache-dir", str(ROOT / ".mypy_cache" / "snippets"), *files],
        ["basedpyright", "--project", str(configuration), "--pythonpath", sys.executable],
    ]
    codes = [subprocess.run([sys.executable, "-m", *checker], cwd=ROOT, check=False).returncode for checker in checkers]
    return max(codes)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        sys.exit(check_types(Path(temporary)))
