"""Installation of this copy of Tellback: the command that adds an optional dependency to it.

pip records where a distribution came from in ``direct_url.json`` (PEP 610). pipx and uv keep an environment for one
program, make it anew with all its extras, and record those in a receipt of their own.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

_DISTRIBUTION: Final = "tellback"
_RECEIPTS: Final = {
    "pipx_metadata.json": ("pipx install --force", re.compile(r'"package_or_url":\s*"[^"]*?\[([^]"]*)\]')),
    "uv-receipt.toml": ("uv tool install --force", re.compile(rf'name = "{_DISTRIBUTION}", extras = \[([^]]*)\]')),
}
"""Receipts in an environment for one program: the command that makes it anew, and where the receipt has its extras."""


def install_command(extra: str) -> str:
    """Return the command that adds *extra* to the running installation."""
    for receipt, (command, pattern) in _RECEIPTS.items():
        path = Path(sys.prefix, receipt)
        if path.is_file():
            recorded = pattern.search(path.read_text(encoding="utf-8", errors="replace"))
            known = re.findall(r"[\w-]+", recorded[1]) if recorded else []
            return f"{command} {_requirement(dict.fromkeys([*known, extra]))}"
    python = shlex.quote(_from_here(sys.executable))
    pip = f"{python} -m pip install" if find_spec("pip") is not None else f"uv pip install --python {python}"
    return f"{pip} {_requirement([extra])}"


def _requirement(extras: Iterable[str]) -> str:
    """Return the words that name this installation's origin with *extras*; never a bare name, as it is unpublished."""
    try:
        recorded = json.loads(distribution(_DISTRIBUTION).read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        recorded = {}
    chosen, url = f"[{','.join(extras)}]", recorded.get("url", "")
    if "vcs_info" in recorded or "archive_info" in recorded:
        scheme = f"{recorded['vcs_info']['vcs']}+" if "vcs_info" in recorded else ""
        return shlex.quote(f"{_DISTRIBUTION}{chosen} @ {scheme}{url}")
    is_editable = not recorded or recorded.get("dir_info", {}).get("editable", False)
    option = "-e " if is_editable else ""
    folder = Path(url2pathname(urlsplit(url).path)) if url else Path(__file__).resolve().parents[1]
    if not (folder / "pyproject.toml").is_file():
        return f"{option}'.{chosen}', in Tellback's folder"
    return option + shlex.quote(_from_here(folder) + chosen)


def _from_here(path: str | Path) -> str:
    """Return *path* relative to the working folder where it is below."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except (OSError, ValueError):
        return str(path)
