"""Settings: of the server, for its owner; and what a user's account may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request, Response

from tellback.agent.assistant.server.accounts import Account, Accounts
from tellback.agent.assistant.server.page.page_route import Own, PageRoute
from tellback.agent.assistant.server.page.rendering import render
from tellback.agent.assistant.wiring import OpenedMemory

router = APIRouter(route_class=PageRoute)
_ROLES = {"owner": "owner", "member": "member: reads and writes", "reader": "reader: changes nothing"}


@router.get("/settings")
async def settings(request: Request, opened: Own) -> Response:
    """Show what is set, and where it is changed; a user what they may use."""
    account: Account = request.state.caller
    values: dict[str, Any] = {"account": account, "role": _ROLES[account.user.role], "settings": {}, "shares": {}}
    if account.is_owner:
        values["settings"] = _shown_settings(opened)
    accounts: Accounts = request.app.state.accounts
    values["shares"] = await accounts.shared_with(account)
    values["quota"] = {what: most for what, most in asdict(account.user.quota).items() if most is not None}
    return render(request, "settings.html", **values)


def _shown_settings(opened: OpenedMemory) -> Mapping[str, tuple[str, str]]:
    """Return what is set, by its name for people: the value, and the name of the setting."""
    it = opened.settings
    return {
        "Memory": (str(it.shown_memory), "memory"),
        "Namespace": (it.namespace or "(default)", "namespace"),
        "Your name": (it.name or "not set", "name"),
        "Model that answers": (it.model or "none: answers are quotes of what you said", "model"),
        "Embedder": (it.embedder, "embedder"),
        "Only this machine is asked": ("yes" if it.offline else "no", "offline"),
        "Secrets in what you say": (
            {"redact": "left out", "reject": "not kept", "keep": "kept"}[it.secrets],
            "secrets",
        ),
        "Sensitive memories are shown to a remote model": ("yes" if it.share_sensitive else "no", "share_sensitive"),
        "Facts are noted from a chat": ("yes" if it.extract_facts else "no", "extract_facts"),
        "A backup is made each day": ("yes" if it.automatic_backups else "no", "automatic_backups"),
    }
