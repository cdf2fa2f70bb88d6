"""Arrays in the private cache, mapped from files of numpy's, and folders made whole.

The platform's cache folder (``TELLBACK_CACHE`` names another) may be deleted at any time.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def user_cache() -> Path:
    """Return the folder of files that may be deleted at any time, which may not exist yet."""
    named = os.environ.get("TELLBACK_CACHE")
    if named:
        return Path(named)
    from platformdirs import user_cache_path

    return user_cache_path("tellback", appauthor=False)


def make_cache_folder(folder: Path, write: Callable[[Path], None]) -> None:
    """Make *folder* with the files that *write* puts into it: whole or not at all, for this user alone."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        write(temporary)
        try:
            temporary.rename(folder)
        except OSError:  # another process was faster
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_arrays(folder: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write *arrays* to the new *folder*, a file of numpy's each."""
    folder.mkdir()
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)


def map_arrays(folder: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays in *folder* by name, mapped and read-only; ``ValueError`` where there are none."""
    arrays = {path.stem: np.load(path, mmap_mode="r").view(np.ndarray) for path in folder.glob("*.npy")}
    if not arrays:
        raise ValueError(f"{folder}: no arrays are here")
    return arrays
