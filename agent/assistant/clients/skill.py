"""Skill that tells a client's model when and how to use the memory."""

from __future__ import annotations

from typing import Final

from tellback.agent.context.rendering import DATA_RULES, ITEM_FORM

SKILL: Final = f"""\
---
name: tellback
description: The user's own long-term memory across all clients. Use it when the user refers to something said or \
decided earlier, asks what is known about a person, project or preference, tells something worth keeping, or says that \
something remembered is wrong or should be forgotten.
---

# Tellback: the user's long-term memory

What bears on a prompt is added to it in a block `<tellback-memories>`, a line each: {ITEM_FORM}. {DATA_RULES}
Where it does not answer the question, look yourself:

- Search in the user's words: the tool `recall` of the server `tellback`, or the command `tellback recall "QUESTION"`.
- Keep what the user asks you to keep: the tool `remember`, or `tellback remember "TEXT"`. What the user types in a
  prompt is kept anyway; do not store it again.
- When the user says that a memory is wrong, correct that one by its id: the tool `correct`, or
  `tellback correct ID "TEXT"`. Never add a second, contradicting memory.
- Forget only what the user wants forgotten: the tool `forget`, or `tellback forget ID`.
"""
