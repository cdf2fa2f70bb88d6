"""Text of pictures and of scanned pages, by the program ``tesseract`` where it is installed.

It runs in a process of its own below the worker's, under the same limits, with the languages that it has.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from typing import Final

from tellback.memory.documents.loaders.base import DEFAULT_LIMITS, LoadedDocument, LoadLimits
from tellback.memory.errors import LoadError

PROGRAM: Final = "tesseract"
RECOGNISED_FORMATS: Final = frozenset({"pdf", "ocr"})
_MAX_LANGUAGES: Final = 3
"""Each further language takes its time on every page."""
_NO_LANGUAGES: Final = frozenset({"osd", "equ"})


def ocr_installed() -> bool:
    """Return whether text of pictures can be read here."""
    return shutil.which(PROGRAM) is not None


def picture_text(picture: bytes, source: str, *, seconds: float) -> str:
    """Return the text of *picture* (PNG, JPEG, TIFF, PNM), with an empty line between paragraphs; "" for none.

    Raises ``LoadError`` where it takes more than *seconds* or the program fails.
    """
    command = [PROGRAM, "stdin", "stdout", "-l", _languages(), "--psm", "3"]
    try:
        process = subprocess.run(  # noqa: S603 - found on the user's own PATH, the picture on its standard input
            command,
            input=picture,
            capture_output=True,
            timeout=max(seconds, 0.1),
            check=True,
            env={**os.environ, "OMP_THREAD_LIMIT": "1"},
        )
    except subprocess.TimeoutExpired as error:
        raise LoadError(source, f"tesseract took more than {seconds:.0f} seconds") from error
    except (OSError, subprocess.CalledProcessError) as error:
        raise LoadError(source, "tesseract could not read it") from error
    text = process.stdout.decode("utf-8", "replace").replace("\f", "")
    return "\n".join(line.strip() for line in text.split("\n")).strip()


@functools.cache
def _languages() -> str:
    """Return the installed languages as tesseract takes them, English first."""
    listed = subprocess.run([PROGRAM, "--list-langs"], capture_output=True, text=True, check=False)  # noqa: S603
    names = [name.strip() for name in listed.stdout.splitlines()[1:] if name.strip() and "/" not in name]
    languages = sorted((name for name in names if name not in _NO_LANGUAGES), key=lambda name: (name != "eng", name))
    return "+".join(languages[:_MAX_LANGUAGES]) or "eng"


def read_ocr(data: bytes, source: str, limits: LoadLimits = DEFAULT_LIMITS) -> LoadedDocument:
    """Return the recognised text of a picture; one without any is refused."""
    if not ocr_installed():
        raise LoadError(source, "a picture; its text is read where tesseract is installed")
    text = picture_text(data, source, seconds=limits.scan_seconds)
    if not text:
        raise LoadError(source, "a picture without text")
    return LoadedDocument(text=text, notes=("text recognised by tesseract",))
