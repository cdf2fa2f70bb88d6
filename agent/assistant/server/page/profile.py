"""View of what is known about the user, by topic, each line with the memory that says so."""

from __future__ import annotations

from itertools import groupby

from fastapi import APIRouter, Request, Response

from tellback.agent.assistant.server.page.memories import Row
from tellback.agent.assistant.server.page.page_route import Opened, PageRoute
from tellback.agent.assistant.server.page.rendering import render

router = APIRouter(route_class=PageRoute)


@router.get("/profile")
async def profile(request: Request, opened: Opened) -> Response:
    """Show the user at a glance."""
    known = await opened.desk.overview()
    people = {
        subject: [
            (topic.value, [(Row(entry.memory, opened), entry) for entry in entries])
            for topic, entries in groupby(of_one, key=lambda entry: entry.topic)
        ]
        for subject, of_one in groupby(known.known, key=lambda entry: entry.subject)
    }
    pinned, recent = ([Row(memory, opened) for memory in memories] for memories in (known.pinned, known.recent))
    return render(request, "profile.html", people=people, pinned=pinned, recent=recent)
