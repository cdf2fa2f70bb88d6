"""Places in JSON texts: an edit changes what it names, and nothing else."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tellback.agent.assistant.server.proxy.json_text import (
    elements,
    insertion_of_member,
    members,
    removal_of_member,
    with_edits,
)


def random_value(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.choice("sntfl" if depth > 2 else "sntflo")
    if kind == "s":
        return "".join(rng.choice('ab"\\{}[],:é\n\u2028🚀') for _ in range(rng.randrange(6)))
    if kind == "l":
        return [random_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == "o":
        return {f"k{index}{rng.choice('ab')}": random_value(rng, depth + 1) for index in range(rng.randrange(4))}
    return {"n": rng.choice([0, -1.5, 1e300]), "t": True, "f": None}[kind]


@pytest.mark.parametrize("seed", range(30))
def test_a_member_put_in_or_taken_out_leaves_all_other_bytes(seed: int) -> None:
    rng = random.Random(seed)
    value = {f"m{index}": random_value(rng) for index in range(rng.randrange(1, 5))}
    text = json.dumps(value, indent=rng.choice([None, 0, 3]), ensure_ascii=rng.random() < 0.5)
    found = members(text)
    assert {name: place.value for name, place in found.items()} == value
    assert all(json.loads(text[place.start : place.end]) == value[name] for name, place in found.items())
    longer = with_edits(text, [insertion_of_member(text, len(text), "new", "}")])
    assert json.loads(longer) == {**value, "new": "}"}
    shorter = with_edits(longer, [removal_of_member(longer, 0, "new")])
    assert "".join(shorter.split()) == "".join(text.split())
    name = rng.choice(list(value))
    assert json.loads(with_edits(text, [removal_of_member(text, 0, name)])) == {
        other: value[other] for other in value if other != name
    }


def test_elements_have_their_places_and_what_is_no_json_raises() -> None:
    text = '[1, "]" ,{"a":[]}]'
    assert [text[place.start : place.end] for place in elements(text, 0)] == ["1", '"]"', '{"a":[]}']
    for broken in ("", "[1", "[1 2]", '{"a"}', "{1:2}", '{"a":1', "null"):
        with pytest.raises(ValueError, match=r"."):
            members(broken)
        with pytest.raises(ValueError, match=r"."):
            elements(broken, 0)
