"""The child process that parses one PDF: bytes on stdin, JSON on stdout. Run as a script, never imported.

It stands alone (pypdf and the standard library) so that a crafted file meets a small process with limits on
memory and time, and nothing of the memory. Arguments: memory limit in bytes, seconds of CPU, most characters
of text.
"""

from __future__ import annotations

import io
import json
import logging
import sys
import warnings


def limit_process(memory: int, seconds: int) -> None:
    """Bound this process, where the platform can."""
    try:
        import resource
    except ImportError:  # Windows: the parent's clock is the only limit
        return
    for what, value in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, seconds)):
        _, hard = resource.getrlimit(what)
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        try:
            resource.setrlimit(what, (bound, bound))
        except (ValueError, OSError):  # macOS refuses some of them; the parent's clock remains
            continue


def read_pdf(data: bytes, most: int) -> dict[str, object]:
    """Return {"pages", "title"} of a PDF, or {"error"} with a word the parent turns into a sentence."""
    from pypdf import PasswordType, PdfReader
    from pypdf.errors import DependencyError

    reader = PdfReader(io.BytesIO(data), strict=False)
    if reader.is_encrypted:
        try:
            opened = reader.decrypt("") is not PasswordType.NOT_DECRYPTED
        except (DependencyError, NotImplementedError):  # AES needs a package that we do not ask for
            opened = False
        if not opened:
            return {"error": "encrypted"}
    pages: list[str] = []
    total = 0
    for page in reader.pages:
        pages.append(page.extract_text() or "")
        total += len(pages[-1])
        if total > most:
            return {"error": "long"}
    title = reader.metadata.title if reader.metadata is not None else None
    return {"pages": pages, "title": title if isinstance(title, str) else ""}


def main() -> None:
    """Answer on stdout and leave."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    data = sys.stdin.buffer.read()
    limit_process(int(sys.argv[1]), int(sys.argv[2]))
    answer: dict[str, object]
    try:
        answer = read_pdf(data, int(sys.argv[3]))
    except ModuleNotFoundError:
        answer = {"error": "missing"}
    except (MemoryError, ImportError):  # a library that does not fit under the limit fails to import
        answer = {"error": "memory"}
    except Exception as error:  # a parser met by hostile bytes may raise anything; the parent wants one word
        answer = {"error": "broken", "detail": type(error).__name__}
    sys.stdout.buffer.write(json.dumps(answer).encode("ascii"))


if __name__ == "__main__":
    main()
