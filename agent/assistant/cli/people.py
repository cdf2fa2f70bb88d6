"""``tellback memories people``: who is who, as memories say; say it, and take it back."""

from __future__ import annotations

from typing import Annotated

import typer

from tellback.agent.assistant.cli.command_context import opened_memory, run
from tellback.agent.assistant.cli.listing import keep_memories
from tellback.agent.assistant.cli.options import JsonOption
from tellback.agent.assistant.cli.output import print_json, print_note, print_table, print_text
from tellback.agent.short_ids import short_id

_NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The person's name.")]


def list_people(context: typer.Context, json: JsonOption = False) -> None:
    """List your relatives by name, what else you call them, and which memory says so.

    A question by either finds memories by the other. #1 stands for the memory of the first row in other commands.
    """
    with opened_memory(context) as opened:
        people = run(opened.desk.people())
        if not json:
            keep_memories(opened.settings, [person.memory for person in people])
    if json:
        print_json({"people": people})
    elif people:
        rows = [
            (str(i), one.name, one.role, short_id(one.memory.id), one.memory.text) for i, one in enumerate(people, 1)
        ]
        print_table(("#", "name", "also", "id", "memory"), rows, whole=4, full=False)
    else:
        print_text("No memory says who is whose relative yet.")
        print_note("say it:", command='tellback memories people add Lena "my wife"')


def add_person(
    context: typer.Context,
    name: _NameArgument,
    role: Annotated[str, typer.Argument(metavar="ROLE", help='What you call them, such as "my wife".')],
    instead_of: Annotated[str, typer.Option(metavar="NAME", help="A name that is wrong for that role.")] = "",
    json: JsonOption = False,
) -> None:
    """Remember that a relative of yours has this name.

    A name that the list has with another role is then one person with both roles.
    """
    from tellback.agent.desk.consent import Person

    with opened_memory(context, create=True) as opened:
        report = run(opened.desk.add_person(Person(), name, role, instead_of=instead_of))
    if json:
        print_json(report)
    else:
        print_text(f"{report.headline} {report.id}".rstrip())


def split_person(
    context: typer.Context,
    name: _NameArgument,
    alias: Annotated[str, typer.Argument(metavar="ROLE", help="What they are not: the role as the list has it.")],
    json: JsonOption = False,
) -> None:
    """Take back that a person has this role; the memory that said so stays, with a tag."""
    from tellback.agent.desk.consent import Person

    with opened_memory(context) as opened:
        operation = run(opened.desk.split_person(Person(), name, alias))
    if json:
        print_json(operation)
        return
    print_text(f"{name} is no longer {alias}")
    print_note("take it back with:", command=f"tellback undo {operation.id}")
