"""Built-in tools: their results, and the limits that no argument gets around.

Inner parts, on no face: ``tellback.agent.tools.base``, ``tellback.agent.tools.builtin``.
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.agent import (
    ArgumentError,
    ChainedTool,
    ResultPagination,
    Tool,
    ToolContext,
    ToolFailed,
    calculator,
    clock,
    file_tools,
    note_tools,
    tool,
)
from tellback.agent.tools.base import ToolAnnotations, annotations_of
from tellback.agent.tools.builtin import calculate
from tellback.memory import ImageBlock, TextBlock

pytestmark = pytest.mark.anyio
posix = pytest.mark.skipif(os.name == "nt", reason="links and FIFOs of POSIX")


async def use(tool: Tool, context: ToolContext | None = None, **arguments) -> str:
    output = await tool.call(arguments, context or ToolContext())
    assert isinstance(output, str)
    return output


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("1 + 2 * 3", "7"),
        ("(3 + 4) * sqrt(2) / sqrt(2)", str(7 * 2**0.5 / 2**0.5)),
        ("2 ** 100", str(2**100)),
        ("2^10", "1024"),
        ("-7 // 2", "-4"),
        ("max(1, 2.5, -3)", "2.5"),
        ("round(pi, 4)", "3.1416"),
        ("10 % 3", "1"),
    ],
)
def test_arithmetic_is_computed(expression: str, result: str) -> None:
    assert calculate(expression) == result


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os').system('echo')",
        "().__class__.__bases__[0].__subclasses__()",
        "open('/etc/passwd').read()",
        "[x for x in (1,)]",
        "lambda: 1",
        "'a' * 9",
        "True + 1",
        "1 if 1 else 2",
        "pi.real",
        "eval('1')",
        "max(*[1, 2])",
        "round(1.5, ndigits=0)",
        "9 ** 9 ** 9 ** 9",
        "2 ** 99999",
        "(-8) ** 0.5",
        "1 / 0",
        "1e308 * 10",
        "exp(1000)",
        "-" * 400 + "1",
        "(" * 240 + "1" + ")" * 240,
        "1 +",
        "1" * 501,
        "sqrt(-1)",
        "\x00",
    ],
)
def test_the_calculator_refuses_code_undefined_results_and_too_large_expressions(expression: str) -> None:
    with pytest.raises(ToolFailed):
        calculate(expression)


@given(st.text(alphabet="0123456789.+-*/%^() ,episqrtlogmaxn_'\"[]", min_size=1, max_size=40))
def test_the_calculator_gives_a_number_or_a_tool_failure_for_any_text(text: str) -> None:
    try:
        assert float(calculate(text)) == float(calculate(text))
    except (ToolFailed, OverflowError):
        return


async def test_the_calculator_is_a_tool() -> None:
    assert await use(calculator(), expression="6 * 7") == "42"


async def test_the_clock_tool_gives_the_time_and_refuses_unknown_time_zones() -> None:
    reported = clock(lambda: datetime(2026, 5, 3, 12, tzinfo=UTC))
    assert await use(reported) == "Sunday, 2026-05-03T12:00:00+00:00"
    with pytest.raises(ToolFailed, match="time zone"):
        await use(reported, zone="../../etc/passwd")
    with pytest.raises(ToolFailed, match="time zone"):
        await use(reported, zone="Europe/Atlantis")


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("one\ntwo\nthree\n")
    (folder / "sub" / "b.md").write_text("# B")
    (folder / ".secret").write_text("hidden")
    (tmp_path / "outside.txt").write_text("outside")
    return folder


async def test_files_of_the_folder_are_listed_and_read(root: Path) -> None:
    list_files, read_file = file_tools(root)
    assert (await use(list_files)).splitlines() == ["a.txt", "sub/b.md"]
    assert await use(read_file, path="sub/b.md") == "# B"
    assert await use(read_file, path="a.txt", start=2, lines=1) == "two\n(3 lines in all; read on from line 3)"


@pytest.mark.parametrize(
    "path",
    [
        "../outside.txt",
        "sub/../../outside.txt",
        "/etc/passwd",
        "~/x",
        "C:/x",
        "\\\\host\\x",
        "..\\outside.txt",
        "a.txt\x00.md",
        ".secret",
        "sub",
        ".",
        "missing.txt",
        "a.txt/b",
    ],
)
async def test_the_file_tools_refuse_hidden_missing_and_outside_paths(root: Path, path: str) -> None:
    _, read_file = file_tools(root)
    with pytest.raises(ToolFailed):
        await use(read_file, path=path)


@posix
async def test_the_file_tools_do_not_follow_a_link_in_any_part_of_a_path(root: Path) -> None:
    (root / "link.txt").symlink_to(root.parent / "outside.txt")
    (root / "folder").symlink_to(root.parent)
    list_files, read_file = file_tools(root)
    for path in ("link.txt", "folder/outside.txt"):
        with pytest.raises(ToolFailed):
            await use(read_file, path=path)
    assert "link.txt" not in await use(list_files)


@posix
async def test_reading_a_named_pipe_fails_instead_of_blocking(root: Path) -> None:
    os.mkfifo(root / "pipe")
    with pytest.raises(ToolFailed, match="plain file"):
        await use(file_tools(root)[1], path="pipe")


async def test_a_too_large_or_binary_file_is_refused(root: Path) -> None:
    (root / "big.txt").write_bytes(b"x" * 101)
    (root / "binary").write_bytes(b"\x00\x01")
    _, read_file = file_tools(root, max_bytes=100)
    for path in ("big.txt", "binary"):
        with pytest.raises(ToolFailed):
            await use(read_file, path=path)


def test_file_tools_refuse_a_missing_root(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="root"):
        file_tools(tmp_path / "missing")


async def test_notes_are_written_read_and_added_to(tmp_path: Path) -> None:
    list_notes, read_note, write_note = note_tools(tmp_path)
    assert await use(list_notes) == "There are no notes."
    await use(write_note, name="plan", text="first\n")
    await use(write_note, name="plan", text="second", append=True)
    assert await use(read_note, name="plan") == "first\nsecond\n"
    await use(write_note, name="plan", text="anew")
    assert await use(read_note, name="plan") == "anew"
    assert await use(list_notes) == "plan"
    assert names_in(tmp_path) == ["plan.md"]


@pytest.mark.parametrize("name", ["../x", "a/b", "/x", ".x", "", "a" * 100, "x\n"])
async def test_an_invalid_note_name_is_refused_and_writes_nothing(tmp_path: Path, name: str) -> None:
    with pytest.raises(ToolFailed):
        await use(note_tools(tmp_path)[2], name=name, text="x")
    assert names_in(tmp_path) == []


@posix
async def test_a_symlink_at_the_path_of_a_note_is_replaced_and_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (tmp_path / "victim").write_text("mine")
    (folder / "plan.md").symlink_to(tmp_path / "victim")
    with pytest.raises(ToolFailed):
        await use(note_tools(folder)[2], name="plan", text="x", append=True)
    await use(note_tools(folder)[2], name="plan", text="x")
    assert (tmp_path / "victim").read_text() == "mine"
    assert (folder / "plan.md").read_text() == "x"


async def test_a_note_over_max_bytes_is_refused(tmp_path: Path) -> None:
    write = note_tools(tmp_path, max_bytes=10)[2]
    await use(write, name="n", text="x" * 9)
    with pytest.raises(ToolFailed, match="larger"):
        await use(write, name="n", text="xx", append=True)


@tool(idempotent=True)
def doubled(number: int) -> str:
    """Double it."""
    return str(number * 2)


@tool
def exclaimed(text: str, mark: str = "!") -> str:
    """Exclaim it."""
    return text + mark


async def test_a_chain_of_tools_is_one_tool() -> None:
    chain = ChainedTool(doubled, exclaimed, name="loud", description="Double, loudly.")
    assert isinstance(chain, Tool)
    assert chain.spec.parameters == doubled.spec.parameters
    assert await use(chain, number=4) == "8!"
    assert annotations_of(chain) == ToolAnnotations()


async def test_a_chained_tool_ends_at_its_first_failure_and_needs_approval_if_any_link_does() -> None:
    @tool(needs_approval=True)
    def refuse(text: str) -> str:
        """Refuse."""
        raise ToolFailed("no")

    chain = ChainedTool(doubled, refuse, exclaimed, name="c", description="")
    assert annotations_of(chain).needs_approval
    with pytest.raises(ToolFailed, match="no"):
        await use(chain, number=1)


def test_a_chain_of_a_single_tool_or_of_mismatched_tools_is_refused() -> None:
    @tool
    def two(a: str, b: str) -> str:
        """Take two."""
        return a + b

    for tools in ([doubled], [doubled, two]):
        with pytest.raises(ArgumentError):
            ChainedTool(*tools, name="c", description="")


async def test_a_long_tool_result_is_paginated_and_read_on_with_read_more() -> None:
    pages = ResultPagination(200, kept=2)
    (read_more,) = pages.tools
    context = ToolContext(call_id="c1", session="s")
    text = "".join(str(number % 10) for number in range(450))
    first = pages.cut(text, context)[0].text
    assert first.startswith(text[:200] + "\n(page 1 of 3, 450 characters in all")
    assert 'read_more(result="c1", page=2)' in first
    shown = [await use(read_more, context, result="c1", page=page) for page in (1, 2, 3)]
    assert "".join(item.rpartition("\n")[0] for item in shown) == text
    with pytest.raises(ToolFailed, match="3 pages"):
        await use(read_more, context, result="c1", page=4)


async def test_a_paginated_result_is_readable_only_in_its_session_and_while_kept() -> None:
    pages = ResultPagination(200, kept=1)
    pages.cut("x" * 300, ToolContext(call_id="c1", session="mine"))
    with pytest.raises(ToolFailed):
        await use(pages.tools[0], ToolContext(session="theirs"), result="c1", page=2)
    pages.cut("y" * 300, ToolContext(call_id="c2", session="mine"))
    with pytest.raises(ToolFailed, match="no longer kept"):
        await use(pages.tools[0], ToolContext(session="mine"), result="c1", page=2)


@pytest.mark.parametrize("options", [{"limit": 10}, {"kept": -1}])
def test_invalid_pagination_options_are_refused(options: dict) -> None:
    with pytest.raises(ArgumentError):
        ResultPagination(**options)


def test_pagination_keeps_images_and_leaves_short_results_unchanged() -> None:
    picture = ImageBlock(media_type="image/png", data=b"x")
    pages = ResultPagination(200)
    cut = pages.cut((TextBlock(text="x" * 300), picture), ToolContext())
    assert cut[1] == picture
    assert "left out" in cut[0].text
    assert pages.cut("short", ToolContext()) == "short"
    assert pages.tools == ()


@pytest.mark.skipif(sys.platform == "win32", reason="the fallback is what Windows uses anyway")
async def test_the_file_tools_refuse_links_on_systems_without_relative_open(root: Path, monkeypatch) -> None:
    monkeypatch.setattr("tellback.agent.tools.files._OPENS_RELATIVE", False)
    (root / "link.txt").symlink_to(root.parent / "outside.txt")
    _, read_file = file_tools(root)
    assert await use(read_file, path="a.txt") == "one\ntwo\nthree"
    with pytest.raises(ToolFailed, match="link"):
        await use(read_file, path="link.txt")
    write = note_tools(root)[2]
    await use(write, name="plan", text="x")
    assert (root / "plan.md").read_text() == "x"
