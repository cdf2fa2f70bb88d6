"""Messages as stored text and back, the texts inside a JSON value, and the validation of what names them.

What does not come back equal is refused before it is stored, so that no storage has to promise less than it was
given.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tellback.memory.errors import ArgumentError
from tellback.memory.validation import checked_int, checked_text

if TYPE_CHECKING:
    from tellback.memory.messages import Message, Role

_ROLES = ("system", "user", "assistant", "tool")
_NAME_LIMIT = 1024


def message_to_json(message: Message, argument: str) -> str:
    """Return *message* as JSON text that reads back equal to it."""
    try:
        text = message.model_dump_json()
        text.encode()
        same = message_from_json(text) == message
    except (ValueError, RecursionError) as error:
        raise ArgumentError(argument, message, f"cannot be written as JSON ({type(error).__name__})") from error
    if not same:
        expected = "metadata and arguments must be plain JSON (finite numbers, lists, text keys) to come back equal"
        raise ArgumentError(argument, message, expected)
    return text


def message_from_json(text: str) -> Message:
    """Return the message that *text* stores."""
    from tellback.memory.messages import Message

    return Message.model_validate_json(text)


def messages_to_json(messages: Sequence[Message]) -> list[str]:
    """Return each of *messages* as JSON text, naming the one that is wrong."""
    return [message_to_json(message, f"messages[{i}]") for i, message in enumerate(checked_messages(messages))]


def checked_messages(messages: Sequence[Message]) -> Sequence[Message]:
    """Return *messages* if they are a list of messages; what a history gives is a ``StoredMessage``, and has one."""
    from tellback.memory.messages import Message

    if isinstance(messages, (str, bytes)) or not isinstance(messages, Sequence):
        raise ArgumentError("messages", messages, "a list of messages is needed")
    for position, message in enumerate(messages):
        if not isinstance(message, Message):
            raise ArgumentError(f"messages[{position}]", message, "a Message is needed")
    return messages


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


def checked_session(session: object, argument: str = "session") -> str:
    """Return *session* if it can be the id of one."""
    return _checked_name(session, argument, "a session id is a text that is not empty")


def checked_namespace(namespace: object) -> str:
    """Return *namespace* if it can be one; the empty one is the default."""
    return _checked_name(namespace, "namespace", "a text is needed", may_be_empty=True)


def check_paging(limit: object, offset: object = 0, after: object = 0) -> None:
    """Refuse a *limit*, *offset* or *after* that does not count."""
    for argument, value in (("limit", 0 if limit is None else limit), ("offset", offset), ("after", after)):
        checked_int(value, argument)


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
    return _checked_name(value, argument, "a text that is not empty is needed")


def _checked_name(value: object, argument: str, expected: str, *, may_be_empty: bool = False) -> str:
    if not isinstance(value, str) or not (value or may_be_empty):
        raise ArgumentError(argument, value, expected)
    if len(value) > _NAME_LIMIT:
        raise ArgumentError(argument, value, f"may have at most {_NAME_LIMIT} characters")
    if "\0" in value:
        raise ArgumentError(argument, value, "must not contain NUL")
    return checked_text(value, argument)
