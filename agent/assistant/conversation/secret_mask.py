"""Mask of the secrets of a prompt, for what is shown of its turn."""

from __future__ import annotations


class SecretMask:
    """Replacement of the secrets of a prompt by marks that name their kinds."""

    def __init__(self, prompt: str) -> None:
        from tellback.memory.internals import find_secrets

        self._kinds = {prompt[span.start : span.end]: span.kind for span in find_secrets(prompt)}

    def __bool__(self) -> bool:
        return bool(self._kinds)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of the secrets, in words, each once."""
        return tuple(dict.fromkeys(self._kinds.values()))

    def apply(self, text: str) -> str:
        """Return *text* without the secrets."""
        from tellback.memory.internals import redaction_mark

        for secret, kind in self._kinds.items():
            text = text.replace(secret, redaction_mark(kind))
        return text
