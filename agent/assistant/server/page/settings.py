"""Settings: those that the owner of the server changes here, checked as at the command line; and a user's account.

Keys, addresses and the place of the memory are changed on the machine of the server alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, BackgroundTasks, Depends, Request, Response

from tellback.agent.assistant.config import ConfigurationError, setting_words
from tellback.agent.assistant.config_file import write_settings
from tellback.agent.assistant.server.accounts import Account, Accounts, NotPermitted, check_server_token
from tellback.agent.assistant.server.page.health import restarting
from tellback.agent.assistant.server.page.page_route import Own, PageRoute, go_to
from tellback.agent.assistant.server.page.rendering import render
from tellback.agent.assistant.wiring import OpenedMemory

if TYPE_CHECKING:
    from tellback.agent.assistant.config import Configuration
    from tellback.agent.assistant.server.restarts import Restarts

router = APIRouter(route_class=PageRoute)
_ROLES: Final = {"owner": "owner", "member": "member: reads and writes", "reader": "reader: changes nothing"}
_CHANGEABLE: Final[Mapping[str, Mapping[str, str]]] = {
    "You": {"name": "Your name", "zone": "Your time zone, such as Europe/Lisbon"},
    "Answers": {
        "model": "Model that answers (none: quotes of what you said)",
        "thinking": "Thinking of the model: on, off or a number of tokens",
        "max_tokens": "Most tokens of an answer",
        "token_budget": "Most tokens that a prompt may have",
        "system": "What the model is told about its task",
    },
    "What is kept": {
        "secrets": "Secrets in what you say: redact leaves them out, reject keeps nothing",
        "extract_facts": "The model notes facts after each turn",
        "near_duplicates": "What says almost the same",
        "minimum_length": "Fewest characters of a memory",
    },
    "What others see": {
        "offline": "Only this machine is asked",
        "share_sensitive": "Sensitive memories are shown to a remote model",
        "hook_tokens": "Most tokens that are added to a prompt of an assistant",
        "hook_keep": "What is kept of conversations with assistants",
    },
    "Backups": {
        "automatic_backups": "A backup is made each day",
        "backup_space": "Megabytes that they may take",
    },
}
"""Settings that are changed on the page, by part: what names no place, no address and no key."""
_LONGEST: Final = 4_000


@dataclass(frozen=True, slots=True)
class SettingRow:
    """Setting *name* with its *label* and its *value* as text, one of *words* where there are any.

    What a flag or a variable sets (*fixed_by*) cannot be changed in the file.
    """

    name: str
    label: str
    value: str
    words: tuple[str, ...]
    fixed_by: str


@router.get("/settings")
async def settings(request: Request, opened: Own) -> Response:
    """Show what is set, where the owner may change it; a user what they may use."""
    return await _show(request, opened)


async def _show(
    request: Request, opened: OpenedMemory, given: Mapping[str, str] | None = None, error: str = ""
) -> Response:
    account: Account = request.state.caller
    restarts: Restarts | None = request.app.state.restarts
    accounts: Accounts = request.app.state.accounts
    values: dict[str, Any] = {"account": account, "role": _ROLES[account.user.role], "parts": {}, "fixed": {}}
    if account.is_owner:
        values["fixed"] = _fixed(opened)
    if not account.name and restarts is not None:
        rows = _rows(restarts.configuration)
        values["parts"] = {
            part: [(rows[name], (given or {}).get(name, rows[name].value)) for name in names]
            for part, names in _CHANGEABLE.items()
        }
    values["shares"] = await accounts.shared_with(account)
    values["quota"] = {what: most for what, most in asdict(account.user.quota).items() if most is not None}
    values["restarts"] = restarts if "again" in request.query_params else None
    return render(request, "settings.html", 422 if error else 200, error=error, **values)


@router.post("/settings", dependencies=[Depends(check_server_token)])
async def change(request: Request, opened: Own, tasks: BackgroundTasks) -> Response:
    """Write the settings that were changed, as ``tellback config set`` does; the server serves by them from then on."""
    restarts: Restarts | None = request.app.state.restarts
    if restarts is None:
        raise NotPermitted("settings of this server are changed on its machine")
    form, rows = await request.form(), _rows(restarts.configuration)
    given = {name: str(form[name])[:_LONGEST].replace("\r\n", "\n").strip() for name in rows if name in form}
    changed = {name: text for name, text in given.items() if text != rows[name].value and not rows[name].fixed_by}
    try:
        was_written = write_settings(
            restarts.configuration.path, {name: text or None for name, text in changed.items()}
        )
    except ConfigurationError as error:
        return await _show(request, opened, given, str(error))
    if not was_written:
        return go_to(opened, "/settings")
    names = ", ".join(changed)
    tasks.add_task(restarts.take_settings, f"Saved: {names}.")
    return restarting(request, "/settings", tasks)


def _rows(configuration: Configuration) -> dict[str, SettingRow]:
    rows, own = {}, str(configuration.path)
    for names in _CHANGEABLE.values():
        for name, label in names.items():
            origin = configuration.origins.get(name, own)
            value = _text(getattr(configuration.settings, name))
            rows[name] = SettingRow(name, label, value, setting_words(name), "" if origin == own else origin)
    return rows


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def _fixed(opened: OpenedMemory) -> dict[str, str]:
    """Return what is set on the machine of the server alone, by its name for people."""
    it = opened.settings
    return {
        "Memory": str(it.shown_memory),
        "Namespace": it.namespace or "(default)",
        "Model that answers": it.model or "none: answers are quotes of what you said",
        "Embedder": it.embedder,
    }
