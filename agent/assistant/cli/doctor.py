"""``mneme doctor``: what works here, what does not, and what to do about it."""

from __future__ import annotations

from typing import Annotated

import typer

from agent.assistant.cli.checks import Check, check_endpoints, check_file, check_installation, check_settings
from agent.assistant.cli.context import invocation
from agent.assistant.cli.failures import reported
from agent.assistant.cli.output import print_json, say


@reported
def doctor(
    context: typer.Context,
    without_copy: Annotated[
        bool, typer.Option("--without-copy", help="Let a file of an older version be upgraded without a copy first.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check everything, and say what to do.

    Looks at the installation, the settings, the endpoints that are set, and every row of the memory file. A file of an
    older version is copied before it is upgraded; where the disk has no room for that, --without-copy goes on.
    """
    configuration = invocation(context).configuration()
    if without_copy:
        from vectorstore.sqlite import Database

        with Database(configuration.settings.memory, create=False) as database:
            database.migrate_without_copy()
    checks = [
        *check_installation(),
        *check_settings(configuration),
        *check_endpoints(configuration.settings),
        *check_file(configuration.settings),
    ]
    wrong = [check for check in checks if not check.fine]
    if json:
        print_json({"fine": not wrong, "checks": [_as_json(check) for check in checks]})
    else:
        for check in checks:
            say(f"{'ok ' if check.fine else 'BAD'}  {check.name}: {check.seen}", indent="     ")
            if check.remedy:
                say(f"     -> {check.remedy}", indent="        ")
        say(f"{len(wrong)} of {len(checks)} checks found something wrong" if wrong else "everything is fine")
    if wrong:
        raise typer.Exit(wrong[-1].code)


def _as_json(check: Check) -> dict[str, object]:
    return {"name": check.name, "fine": check.fine, "seen": check.seen, "remedy": check.remedy}
