"""The worker's side: requests on stdin, answers on stdout, one file after another. Run as a script, never imported.

Each request is a line of JSON and the file's bytes, each answer its length and JSON. Argument: the limits as JSON.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any


def limit_memory(most: int) -> None:
    """Bound the memory of this process, where the platform can."""
    try:
        import resource
    except ImportError:  # Windows: the parent's clock is the only limit
        return
    for limit, value in ((resource.RLIMIT_AS, most), (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(limit)
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        try:
            resource.setrlimit(limit, (bound, bound))
        except (ValueError, OSError):  # macOS refuses some of them; the parent's clock remains
            continue


def limit_time(seconds: int) -> None:
    """Let this process use *seconds* of CPU from now on: it ends by itself where the parent has died."""
    try:
        import resource
    except ImportError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = int(time.process_time()) + seconds + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def answer_request(request: dict[str, Any], data: bytes, limits: Any) -> dict[str, Any]:
    """Return {"document"} or {"error"} for one file."""
    from tellback.memory.documents.loaders.registry import load_directly
    from tellback.memory.errors import LoadError

    source = request["source"]
    try:
        loaded = load_directly(request["format"], data, source, limits, packed=request["packed"])
        if len(loaded.text) > limits.characters:
            raise LoadError(source, f"more than {limits.characters:,} characters of text")
        return {"document": asdict(loaded)}
    except LoadError as error:
        return {"error": "load", "reason": error.reason}
    except MemoryError:
        return {"error": "memory"}
    except RecursionError:
        return {"error": "load", "reason": "nested too deeply"}
    except ImportError:  # a library that does not fit under the limit fails to import
        return {"error": "memory"}
    except Exception as error:  # a parser met by hostile bytes may raise anything; the parent wants one sentence
        return {"error": "load", "reason": f"damaged, or not what its name says ({type(error).__name__})"}


def main() -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # a library that prints must not write into an answer
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
    from tellback.memory.documents.loaders.base import LoadLimits

    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    limits = LoadLimits(**json.loads(sys.argv[1]))
    limit_memory(limits.memory)
    requests = sys.stdin.buffer
    while line := requests.readline():
        request = json.loads(line)
        limit_time(limits.seconds)
        answer = answer_request(request, requests.read(request["size"]), limits)
        try:
            encoded = json.dumps(answer).encode("ascii")
        except (MemoryError, ValueError, TypeError):
            encoded = b'{"error": "memory"}'
        answers.write(b"%d\n" % len(encoded) + encoded)
        answers.flush()


if __name__ == "__main__":
    main()
