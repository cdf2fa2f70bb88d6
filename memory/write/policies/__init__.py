"""Write policies: what may become a memory, and in which form; each decision says why."""

from memory.write.policies.always import StoreAlways
from memory.write.policies.extractor import Extractor, Fact
from memory.write.policies.judge import Judge
from memory.write.policies.minimum_length import MinimumLength
from memory.write.policies.near_duplicates import NEAR, NearDuplicates
from memory.write.policies.no_secrets import NoSecrets
from memory.write.policies.protocol import (
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
