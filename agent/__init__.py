"""Agents that remember: a loop over messages and a model provider, with long-term memory around it.

>>> from tellback.agent import Agent, QuotingProvider
>>> from tellback.memory import open_memory
>>> agent = Agent(QuotingProvider(), memory=open_memory("chat.db"))
>>> agent.run_sync("I moved to Lisbon.").text
'Noted: “I moved to Lisbon.”'
"""

from __future__ import annotations

from typing import Final

from tellback.vectorstore.lazy_face import LazyFace as _LazyFace

_FACE: Final = _LazyFace(__name__)
__all__ = _FACE.names
__getattr__ = _FACE.load
__dir__ = _FACE.list
