"""``tellback recall`` in its plain forms, parsed without typer, which is slow to import.

Anything else, mistakes included, is left to the whole command line, which alone declares what is valid.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

_NAMES: Final = ("recall", "search")
_GLOBAL_VALUES: Final = ("memory", "namespace", "language", "model")
_OWN_SWITCHES: Final = {"--explain": "explain", "--full": "full", "--all": "all_utterances"}


@dataclass(slots=True)
class PlainRecall:
    """Call of the command: the words of its question, the count of hits, global *flags* and further *options*."""

    words: list[str] = field(default_factory=list)
    k: int = 5
    flags: dict[str, Any] = field(default_factory=lambda: dict.fromkeys((*_GLOBAL_VALUES, "offline")))
    json: bool = False
    options: dict[str, Any] = field(default_factory=dict)


def parse_plain_recall(arguments: Sequence[str]) -> PlainRecall | None:
    """Return the call in *arguments*; None for another command, or a form that is not plain."""
    call, named = PlainRecall(), False
    rest = iter(arguments)
    for word in rest:
        name, assigned, value = word.partition("=")
        if name.startswith("--") and name[2:] in _GLOBAL_VALUES:
            setting = value if assigned else next(rest, None)
            if setting is None or setting.startswith("-"):
                return None
            call.flags[name[2:]] = setting
        elif word == "--offline":
            call.flags["offline"] = True
        elif word == "--json":
            call.json = True
        elif not named:
            if word not in _NAMES:
                return None
            named = True
        elif word in _OWN_SWITCHES:
            call.options[_OWN_SWITCHES[word]] = True
        elif word == "-k":
            count = next(rest, "")
            if not (count.isascii() and count.isdigit() and int(count)):
                return None
            call.k = int(count)
        elif word.startswith("-"):
            return None
        else:
            call.words.append(word)
    text = " ".join(call.words)
    return call if named and text.strip() and text.isprintable() else None


def run_plain_recall(arguments: Sequence[str]) -> int | None:
    """Run the call in *arguments* and return its exit code; None for a form that is not plain."""
    call = parse_plain_recall(arguments)
    streams = (sys.stdout, sys.stderr)
    if call is None or "_TELLBACK_COMPLETE" in os.environ or any(stream is None for stream in streams):
        return None
    if any(stream.encoding.lower() not in ("utf-8", "utf8") for stream in streams):
        return None
    from tellback.agent.assistant.cli.command_context import GlobalOptions, compute_in_one_thread
    from tellback.agent.assistant.cli.output import escape_unencodable
    from tellback.agent.assistant.cli.recall_output import print_recall

    escape_unencodable()
    compute_in_one_thread()
    context = GlobalOptions(flags=call.flags, json=call.json)
    try:
        print_recall(context, " ".join(call.words), call.k, json=call.json, **call.options)
    except BrokenPipeError:
        from tellback.agent.assistant.cli.errors import discard_stdout

        discard_stdout()
    except (Exception, KeyboardInterrupt) as error:  # the border, as of every command
        from tellback.agent.assistant.cli.errors import report_error

        return report_error(error)
    return 0
