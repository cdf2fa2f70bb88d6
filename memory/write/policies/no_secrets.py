"""Policy that keeps keys, passwords and card numbers out of the memory: redacted, or the whole refused.

>>> NoSecrets().decide(Memory("The PIN is 4821.")).memory.text
'The PIN is [redacted: PIN].'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from tellback.memory.errors import ArgumentError
from tellback.memory.models import MAX_ABOUT_LENGTH, Memory, Trust
from tellback.memory.secrets.patterns import SECRET_KINDS, SecretKind
from tellback.memory.secrets.scanner import find_secrets, redact_spans
from tellback.memory.write.policies.base import Action, OnPolicyFailure, PolicyDecision

_NAME_FIELDS: Final = ("id", "key", "session", "speaker", "kind", "role")
_HARMLESS_LIMIT: Final = 1_000
"""Names in which nothing was found: those of speakers and sessions come again and again."""


@dataclass(frozen=True, slots=True)
class NoSecrets:
    """Takes secrets out of a memory ("redact"), or refuses the memory ("reject").

    *kinds* are the secrets to look for, *also* one's own beside the list.

    Looked through are text, caption, tags, metadata, title and the line that says what it is about. A secret in
    what names a memory (id, key, session, speaker, scopes, kind, role, the document it is from) refuses it, since a
    name with a hole is another name. What the user marked ``sensitive`` is kept whole: it was asked about.
    Conversation history is kept without them, too.
    """

    action: Literal["redact", "reject"] = "redact"
    kinds: Sequence[SecretKind] = SECRET_KINDS
    also: Sequence[SecretKind] = ()
    on_failure: OnPolicyFailure = field(default="reject", kw_only=True)
    _harmless: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.action not in ("redact", "reject"):
            raise ArgumentError("action", self.action, 'one of "redact", "reject" is needed')
        kinds = (*self.kinds, *self.also)
        for kind in kinds:
            if not isinstance(kind, SecretKind):
                raise ArgumentError("kinds", kind, "SecretKinds are needed")
            if kind not in SECRET_KINDS:
                kind.compiled  # noqa: B018  # one's own may be no regular expression: said now, not at the first write
        object.__setattr__(self, "kinds", kinds)

    def decide(self, memory: Memory) -> PolicyDecision:
        """Redact or reject what holds a secret; the reason names the kinds, never the words."""
        if memory.sensitive and memory.actor == "user" and memory.trust == Trust.USER:
            return PolicyDecision(Action.ACCEPT)
        named = [str(getattr(memory, name) or "") for name in _NAME_FIELDS] + [*memory.scopes, *memory.scopes.values()]
        if memory.source is not None:
            named += [memory.source.session or "", memory.source.document or ""]
        found = _Redaction(self.kinds)
        refuses = self.action == "reject" or any(self._is_secret(name) for name in named)
        for text in named if refuses else ():
            found.clean(text)
        cleaned = found.memory(memory)
        if not found.spans:
            return PolicyDecision(Action.ACCEPT)
        if refuses:
            return PolicyDecision(Action.REJECT, found.reason)
        return PolicyDecision(Action.REDACT, found.reason, cleaned, spans=found.spans)

    def _is_secret(self, name: str) -> bool:
        if name in self._harmless:
            return False
        if find_secrets(name, self.kinds):
            return True
        if len(self._harmless) >= _HARMLESS_LIMIT:
            self._harmless.clear()
        self._harmless.add(name)
        return False

    def cleaned(self, text: str, name: str = "") -> tuple[str, int]:
        """Return *text* without secrets, and how many there were; *name* may say that it is a password."""
        found = _Redaction(self.kinds)
        return found.clean(text, name), found.spans


@dataclass(slots=True)
class _Redaction:
    """Findings so far, while one memory is looked through."""

    kinds: Sequence[SecretKind]
    names: list[str] = field(default_factory=list)
    spans: int = 0

    @property
    def reason(self) -> str:
        """Reason for the report: the kinds that were found."""
        return f"secret: {', '.join(dict.fromkeys(self.names))}"

    def memory(self, memory: Memory) -> Memory:
        """Return *memory* without secrets."""
        source = memory.source
        if source is not None:
            title = None if source.title is None else self.clean(source.title)
            source = replace(source, title=title, heading=tuple(self.clean(part) for part in source.heading))
        return replace(
            memory,
            text=self.clean(memory.text),
            caption=self.clean(memory.caption),
            about=self.clean(memory.about)[:MAX_ABOUT_LENGTH],
            tags=tuple(self.clean(tag) for tag in memory.tags),
            metadata={self.clean(name): self._value(name, value) for name, value in memory.metadata.items()},
            source=source,
        )

    def clean(self, text: str, name: str = "") -> str:
        """Return *text* without secrets, read together with its *name*, which may say that it is a password."""
        lead = f"{name}: " if name else ""
        spans = [span for span in find_secrets(lead + text, self.kinds) if span.start >= len(lead)]
        if not spans:
            return text
        self.spans += len(spans)
        self.names += [span.kind for span in spans]
        return redact_spans(lead + text, spans)[len(lead) :]

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, str):
            return self.clean(value, name)
        if isinstance(value, dict):
            return {self.clean(key): self._value(key, inner) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._value(name, inner) for inner in value]
        return value
