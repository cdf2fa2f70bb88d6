"""Messages as stored text and back, the texts inside a JSON value, and the validation of what names them.

What does not come back equal is refused before it is stored, so that no storage has to promise less than it was
given.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from memory.errors import ArgumentError
from memory.messages import Message, Role

_ROLES = ("system", "user", "assistant", "tool")
_NAME_LIMIT = 1024


def message_to_json(message: object, argument: str) -> str:
    """Return *message* as JSON text that reads back equal to it."""
    if not isinstance(message, Message):
        raise ArgumentError(argument, message, "a Message is needed")
    try:
        text = message.model_dump_json()
        text.encode()
        same = message_from_json(text) == message
    except (PydanticSerializationError, ValidationError, UnicodeError, ValueError, RecursionError) as error:
        raise ArgumentError(argument, message, f"cannot be written as JSON ({type(error).__name__})") from error
    if not same:
        expected = "metadata and arguments must be plain JSON (finite numbers, lists, text keys) to come back equal"
        raise ArgumentError(argument, message, expected)
    return text


def message_from_json(text: str) -> Message:
    """Return the message that *text* stores."""
    return Message.model_validate_json(text)


def messages_to_json(messages: Sequence[Message]) -> list[str]:
    """Return each of *messages* as JSON text, naming the one that is wrong."""
    value: object = messages
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise ArgumentError("messages", value, "a list of messages is needed")
    return [message_to_json(message, f"messages[{i}]") for i, message in enumerate(messages)]


def json_fragment(text: str) -> str:
    """Return *text* as it stands inside the JSON of a message."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def texts_in_json(value: Any) -> Iterator[str]:
    """Yield every text inside a JSON value, names of fields too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield name
            yield from texts_in_json(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from texts_in_json(inner)


def checked_session(session: object) -> str:
    """Return *session* if it can be the id of one."""
    if not isinstance(session, str) or not session:
        raise ArgumentError("session", session, "a session id is a text that is not empty")
    return _bounded_name(session, "session")


def checked_namespace(namespace: object) -> str:
    """Return *namespace* if it can be one; the empty one is the default."""
    if not isinstance(namespace, str):
        raise ArgumentError("namespace", namespace, "a text is needed")
    return _bounded_name(namespace, "namespace")


def check_paging(limit: object, offset: object = 0, after: object = 0) -> None:
    """Refuse a *limit*, *offset* or *after* that does not count."""
    for argument, value in (("limit", limit), ("offset", offset), ("after", after)):
        if argument == "limit" and value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ArgumentError(argument, value, "a whole number of 0 or more is needed")


def checked_roles(roles: Iterable[Role] | None) -> tuple[str, ...]:
    """Return *roles* as they are looked for; all of them for None."""
    if roles is None:
        return _ROLES
    if not isinstance(roles, Iterable):
        raise ArgumentError("roles", roles, "a list of roles is needed, or None for all")
    chosen = (roles,) if isinstance(roles, str) else tuple(roles)
    for role in chosen:
        if role not in _ROLES:
            raise ArgumentError("roles", role, f"roles are {', '.join(_ROLES)}")
    return chosen


def checked_sequences(sequences: Iterable[int], argument: str = "sequences") -> list[int]:
    """Return *sequences* if all are sequence numbers."""
    if isinstance(sequences, (str, bytes)) or not isinstance(sequences, Iterable):
        raise ArgumentError(argument, sequences, "a list of sequence numbers is needed")
    chosen = list(sequences)
    for sequence in chosen:
        if isinstance(sequence, bool) or not isinstance(sequence, int):
            raise ArgumentError(argument, sequence, "sequence numbers are whole numbers")
    return chosen


def checked_summary_name(value: object, argument: str) -> str:
    """Return *value* if it can name something: text, not empty, of bounded length."""
    if not isinstance(value, str) or not value:
        raise ArgumentError(argument, value, "a text that is not empty is needed")
    return _bounded_name(value, argument)


def _bounded_name(value: str, argument: str) -> str:
    if len(value) > _NAME_LIMIT:
        raise ArgumentError(argument, value, f"may have at most {_NAME_LIMIT} characters")
    if "\0" in value:
        raise ArgumentError(argument, value, "must not contain NUL")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ArgumentError(argument, value, "must not contain lone surrogates") from error
    return value
