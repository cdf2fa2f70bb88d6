"""Build hook: the sources lie at the top of the repository, the installed package is ``tellback`` with them inside.

An editable installation puts the checkout on Python's path, where ``tellback.py`` is the package. Type checkers do not
follow a module's path, so that they get a folder of links, shaped like the installed package.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LINKS = {"__init__.py": "tellback.py", "agent": "agent", "memory": "memory", "vectorstore": "vectorstore"}


class TellbackBuildHook(BuildHookInterface):  # type: ignore[misc, type-arg]
    """Hook of the wheel, which hatch finds as the one subclass of its interface."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the package's own files to a wheel; make the links in a checkout that is installed to be edited."""
        if version != "editable":
            build_data["force_include"] |= {  # which moves a file: it is no more where it would be otherwise
                "tellback.py": "tellback/__init__.py",
                "agent/assistant/cli/__main__.py": "tellback/__main__.py",
                "agent/py.typed": "tellback/py.typed",
            }
            return
        folder = Path(self.root, ".links", "tellback")
        folder.mkdir(parents=True, exist_ok=True)
        for name, source in LINKS.items():
            link = folder / name
            if not link.is_symlink():
                link.symlink_to(Path("..", "..", source))
