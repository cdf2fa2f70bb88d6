"""Files of arrays in the private cache: several arrays in one file, mapped together, and folders made whole.

The platform's cache folder (``TELLBACK_CACHE`` names another) may be deleted at any time.
"""

from __future__ import annotations

import json
import mmap
import os
import shutil
import struct
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_ALIGNMENT: Final = 64
_LENGTH: Final = struct.Struct("<Q")


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


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write *arrays* to the file *path*: the length of the header, the header (JSON), the arrays."""
    about, offset = {}, 0
    for name, array in arrays.items():
        about[name] = (array.dtype.str, array.shape, offset)
        offset = _aligned(offset + array.nbytes)
    header = json.dumps(about).encode()
    with path.open("wb") as file:
        file.write(_LENGTH.pack(len(header)) + header)
        begin = _aligned(file.tell())
        for name, array in arrays.items():
            file.seek(begin + about[name][2])
            file.write(np.ascontiguousarray(array).tobytes())
        file.truncate(begin + offset)


def map_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file that ``write_arrays`` wrote, mapped and read-only; ``ValueError`` for another one."""
    with path.open("rb") as file:
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    try:
        end = _LENGTH.size + _LENGTH.unpack_from(data)[0]
        begin, about = _aligned(end), json.loads(bytes(data[_LENGTH.size : end]))
        return {
            name: np.ndarray(tuple(shape), np.dtype(dtype), data, begin + offset)
            for name, (dtype, shape, offset) in about.items()
        }
    except (AttributeError, TypeError, struct.error) as error:
        raise ValueError(f"{path}: not a file of arrays") from error


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT
