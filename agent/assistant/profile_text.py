"""Profile of the user in words: sentences of a model, each with the memories that it is taken from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final

from pydantic import BaseModel, Field

from tellback.agent.agent import Agent
from tellback.agent.configuration import AgentSettings
from tellback.agent.context.rendering import item_rules, mark_for_items, render_items
from tellback.agent.context_items import ContextItem, item_from_hit, with_standing
from tellback.agent.providers.base import Provider
from tellback.agent.results import Usage
from tellback.memory import Hit
from tellback.memory.internals import Profile, is_remote

_INSTRUCTIONS: Final = (
    "A person asks what is known about them. Tell them in short sentences, in the language of most of the items, "
    "beginning with who they are, where they live and what they do, then their family and the rest. Say nothing that "
    "no item says; say since or until when where an item does. Give each sentence with the numbers of its items."
)


class ProfileSentence(BaseModel):
    """Sentence about the user, and the numbers of the items that it is taken from."""

    text: Annotated[str, Field(min_length=1)]
    items: Annotated[list[int], Field(description="Numbers of the items, such as 1, 4.")]


@dataclass(frozen=True, slots=True)
class ProfileText:
    """Sentences about the user, each citing some of *items*; *dropped* had nothing to cite. *usage* is the model's."""

    sentences: Sequence[ProfileSentence]
    items: Sequence[ContextItem]
    dropped: int
    usage: Usage


async def describe_profile(provider: Provider, profile: Profile, *, share_sensitive: bool = False) -> ProfileText:
    """Return *profile* in sentences by the model of *provider*; a sentence that cites no item is left out.

    Memories marked as sensitive are shown to a remote model only with *share_sensitive*. A model that fails raises
    ``RunError``.
    """
    shown = share_sensitive or not is_remote(provider)
    items = profile_items(profile, sensitive=shown)
    mark = mark_for_items(items)
    settings = AgentSettings(system=f"{_INSTRUCTIONS}\n\n{item_rules(mark)}", token_budget=None)
    agent = Agent(provider, settings=settings)
    result = await agent.run(render_items(items, mark=mark), store=False, result_type=list[ProfileSentence])
    known = {item.number for item in items}
    cited = [
        sentence.model_copy(update={"items": [number for number in dict.fromkeys(sentence.items) if number in known]})
        for sentence in result.output or ()
    ]
    sentences = [sentence for sentence in cited if sentence.items and sentence.text.strip()]
    return ProfileText(sentences, items, len(cited) - len(sentences), result.usage)


def profile_items(profile: Profile, *, sensitive: bool = True) -> list[ContextItem]:
    """Return the memories of *profile* as items, each once, numbered in its order; sensitive ones with *sensitive*."""
    shown = {entry.memory.id: entry for entry in reversed(profile) if sensitive or not entry.memory.sensitive}
    items = with_standing([item_from_hit(Hit(entry.memory, 0.0), 0) for entry in shown.values()])
    ends = {
        id: f"until {entry.until.day} {entry.until:%b %Y}" for id, entry in shown.items() if entry.until is not None
    }
    return [
        replace(item, number=number, standing=ends.get(item.id, ""))
        for number, item in enumerate(reversed(items), start=1)
    ]
