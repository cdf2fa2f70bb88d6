"""Write policies: what may become a memory, and in which form; each decision says why."""

from memory.write.policies.base import (
    NEAR_DUPLICATE_KEY,
    Action,
    LookupPolicy,
    MemoryLookup,
    MemoryTurn,
    OnPolicyFailure,
    PolicyDecision,
    RedactionPolicy,
    SimilarMemory,
    TurnDecision,
    TurnPolicy,
    WritePolicy,
)
from memory.write.policies.builtin import MinimumLength, NearDuplicates, StoreAlways
from memory.write.policies.callbacks import ExtractedFact, Extractor, Judge
from memory.write.policies.no_secrets import NoSecrets

__all__ = [
    "NEAR_DUPLICATE_KEY",
    "Action",
    "ExtractedFact",
    "Extractor",
    "Judge",
    "LookupPolicy",
    "MemoryLookup",
    "MemoryTurn",
    "MinimumLength",
    "NearDuplicates",
    "NoSecrets",
    "OnPolicyFailure",
    "PolicyDecision",
    "RedactionPolicy",
    "SimilarMemory",
    "StoreAlways",
    "TurnDecision",
    "TurnPolicy",
    "WritePolicy",
]
