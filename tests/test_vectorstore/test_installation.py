"""The command that adds an extra fits the way Tellback was installed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tellback.vectorstore import MissingExtra

PIPX = ("pipx_metadata.json", '{"main_package": {"package_or_url": "/x[local,docs]"}, "injected_packages": {}}')
UV_TOOL = ("uv-receipt.toml", '[tool]\nrequirements = [{ name = "tellback", extras = ["everyday"], directory = "/x" }]')
FOLDER = {"dir_info": {}}
EDITABLE = {"dir_info": {"editable": True}}
GIT = {"vcs_info": {"vcs": "git"}, "url": "https://host/t.git"}


@pytest.mark.parametrize(
    ("receipt", "origin", "pip", "expected"),
    [
        (PIPX, FOLDER, True, "pipx install --force 'CHECKOUT[local,docs,mcp]'"),
        (UV_TOOL, FOLDER, False, "uv tool install --force 'CHECKOUT[everyday,mcp]'"),
        (UV_TOOL, GIT, False, "uv tool install --force 'tellback[everyday,mcp] @ git+https://host/t.git'"),
        (None, FOLDER, True, "PYTHON -m pip install 'CHECKOUT[mcp]'"),
        (None, EDITABLE, False, "uv pip install --python PYTHON -e 'CHECKOUT[mcp]'"),
        (None, {"dir_info": {}, "url": "file:///gone"}, True, "PYTHON -m pip install '.[mcp]', in Tellback's folder"),
    ],
)
def test_a_missing_extra_names_the_command_of_this_installation(
    receipt: tuple[str, str] | None,
    origin: dict[str, object],
    pip: bool,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checkout = tmp_path / "the checkout"
    checkout.mkdir()
    (checkout / "pyproject.toml").touch()
    direct_url = json.dumps({"url": checkout.as_uri(), **origin})
    if receipt is not None:
        (tmp_path / receipt[0]).write_text(receipt[1])
    monkeypatch.chdir(checkout)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr("tellback.vectorstore.installation.find_spec", lambda name: pip or None)
    recorded = SimpleNamespace(read_text=lambda name: direct_url)
    monkeypatch.setattr("tellback.vectorstore.installation.distribution", lambda name: recorded)
    expected = expected.replace("CHECKOUT", ".").replace("PYTHON", sys.executable)
    assert str(MissingExtra("the MCP server", "mcp")) == f"the MCP server needs the extra 'mcp': {expected}"
