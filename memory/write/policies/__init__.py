"""Write policies: what may become a memory, and in which form; each decision says why."""

from memory.write.policies.base import (
    NEAR,
    Action,
    Cleaning,
    Decision,
    LookingPolicy,
    Near,
    OnFailure,
    Stored,
    Turn,
    TurnDecision,
    TurnPolicy,
    WritePolicy,
)
from memory.write.policies.builtin import MinimumLength, NearDuplicates, StoreAlways
from memory.write.policies.callbacks import Extractor, Fact, Judge
from memory.write.policies.no_secrets import NoSecrets

__all__ = [
    "NEAR",
    "Action",
    "Cleaning",
    "Decision",
    "Extractor",
    "Fact",
    "Judge",
    "LookingPolicy",
    "MinimumLength",
    "Near",
    "NearDuplicates",
    "NoSecrets",
    "OnFailure",
    "StoreAlways",
    "Stored",
    "Turn",
    "TurnDecision",
    "TurnPolicy",
    "WritePolicy",
]
