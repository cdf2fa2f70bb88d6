"""Prompts of twelve situations, compared with the files in ``golden_prompts``, which were reviewed.

``python -m tests.support.golden_prompts`` writes them anew.
"""

from __future__ import annotations

import pytest

from tellback.memory import run_sync
from tests.support.golden_prompts import FOLDER, SITUATIONS, as_text, make_request, wrapping_share


@pytest.mark.parametrize("name", SITUATIONS)
def test_the_prompt_equals_its_golden_file(name: str) -> None:
    text = as_text(run_sync(make_request(name)))
    assert text == (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def test_the_wrapping_of_ten_items_is_at_most_a_third_of_what_it_wraps() -> None:
    texts, _, around = wrapping_share(run_sync(make_request("ten-items")))
    assert around <= texts / 3
