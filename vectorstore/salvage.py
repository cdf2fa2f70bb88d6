"""``salvage_store``: what can still be read of a damaged store's file, in a new file."""

from __future__ import annotations

import os


def salvage_store(path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> int:
    """Copy every entry that can be read, and is what was written, to *new_path*; return how many.

    It works on a file that cannot be opened any more, and only reads it. A vector that is lost makes its entry
    pending; a namespace whose name is lost is called ``its name was lost (…)``. ``DamageError``: nothing can be
    read. ``UnsupportedError``: the file has other parts too (a memory's history), which its own tool must copy.
    """
    from vectorstore.analysis import Analyzer
    from vectorstore.sqlite.copying import salvage
    from vectorstore.sqlite.schema import StoreTables

    return salvage(path, new_path, components=[StoreTables(Analyzer())])
