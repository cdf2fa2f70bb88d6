"""The loaders of mail: a message (``.eml``) or a mailbox (``.mbox``), with the attachments that can be read."""

from __future__ import annotations

import re
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Final

from tellback.memory.documents.loaders.base import DEFAULT_LIMITS, LoadedDocument, LoadLimits
from tellback.memory.documents.loaders.html import main_text
from tellback.memory.documents.loaders.html_tree import parse_html
from tellback.memory.documents.loaders.pptx import join_parts
from tellback.memory.errors import LoadError

_HEADERS: Final = ("From", "To", "Cc", "Date")
_MAX_DEPTH: Final = 4
"""Messages in messages that are read."""
_SEPARATOR: Final = re.compile(rb"(?m)^From [^\n]*\d{4}[^\n]*\n(?=[\w-]+:)")
_INVISIBLE: Final = re.compile("[\u00ad\u034f\u200b-\u200f\u2060\ufeff]")


def read_mail(data: bytes, source: str, limits: LoadLimits = DEFAULT_LIMITS) -> LoadedDocument:
    """Return a message, and below it the text of its attachments, each a section of its name.

    Its text part is read, that in HTML where there is no other.
    """
    message = _parse(data)
    if not message.keys():
        raise LoadError(source, "not a mail: it has no headers")
    parts, notes = _parts(message, 0, limits)
    text, spans = join_parts([part for part, _ in parts])
    outline = tuple((start, path) for (start, _), (_, path) in zip(spans, parts, strict=True) if path)
    fields = {name.casefold(): value for name in ("From", "To", "Date") if (value := _header(message, name))}
    return LoadedDocument(
        text=text, title=_header(message, "Subject"), outline=outline, metadata=fields, notes=tuple(notes)
    )


def _parts(
    message: EmailMessage, depth: int, limits: LoadLimits
) -> tuple[list[tuple[str, tuple[str, ...]]], list[str]]:
    """Return the texts of *message*, each with the path of the attachment that it is from."""
    heads = [f"{name}: {value}" for name in (*_HEADERS, "Subject") if (value := _header(message, name))]
    parts: list[tuple[str, tuple[str, ...]]] = [("\n".join(heads) + "\n\n" + _body(message), ())]
    notes: list[str] = []
    for attachment in message.iter_attachments():
        name = attachment.get_filename() or attachment.get_content_type()
        if attachment.get_content_type() == "message/rfc822" and depth < _MAX_DEPTH:
            inner = attachment.get_content()
            below, others = _parts(inner, depth + 1, limits)
            parts += [(text, (_header(inner, "Subject") or name, *path)) for text, path in below]
            notes += others
            continue
        try:
            parts.append((_attachment_text(attachment, name, limits), (name,)))
        except Exception as error:  # whatever is wrong with an attachment, the mail is read
            reason = error.reason if isinstance(error, LoadError) else "damaged"
            notes.append(f"attachment {name}: {reason}")
    return parts, notes


def _attachment_text(attachment: EmailMessage, name: str, limits: LoadLimits) -> str:
    from tellback.memory.documents.loaders.registry import LoaderRegistry

    loaders = LoaderRegistry(limits=limits, isolated=False)
    if attachment.get_content_maintype() == "image":  # most are signatures and logos
        raise LoadError(name, "a picture")
    content = attachment.get_payload(decode=True)
    data = content if isinstance(content, bytes) else b""
    chosen = loaders.choose_by_type(name, attachment.get_content_type())
    return loaders.for_content(chosen, data, name).load(data, name).text


def read_mbox(data: bytes, source: str, limits: LoadLimits = DEFAULT_LIMITS) -> LoadedDocument:
    """Return all messages in their order, each a section of its subject.

    Those that cannot be read are counted in a note.
    """
    borders = [match.start() for match in _SEPARATOR.finditer(data)]
    if not borders or data[: borders[0]].strip():
        raise LoadError(source, "not a mailbox")
    texts: list[str] = []
    outlines: list[tuple[tuple[int, tuple[str, ...]], ...]] = []
    unreadable = 0
    for start, end in zip(borders, [*borders[1:], len(data)], strict=True):
        try:
            loaded = read_mail(data[start:end].partition(b"\n")[2], source, limits)
        except LoadError:
            unreadable += 1
            continue
        subject = loaded.title or "no subject"
        texts.append(loaded.text)
        outlines.append(((0, (subject,)), *((offset, (subject, *path)) for offset, path in loaded.outline)))
    text, spans = join_parts(texts)
    outline = tuple(
        (start + offset, path)
        for (start, _), outline_of_mail in zip(spans, outlines, strict=True)
        for offset, path in outline_of_mail
    )
    notes = (f"{unreadable} messages could not be read",) if unreadable else ()
    return LoadedDocument(text=text, outline=outline, notes=notes)


def _parse(data: bytes) -> EmailMessage:
    message = message_from_bytes(data, policy=policy.default)
    assert isinstance(message, EmailMessage)
    return message


def _header(message: EmailMessage, name: str) -> str:
    try:
        return " ".join(str(message.get(name, "")).split())
    except (ValueError, TypeError, IndexError, AttributeError):  # headers of crafted mails break the standard parser
        return ""


def _body(message: EmailMessage) -> str:
    body = message.get_body(("plain", "html"))
    if body is None:
        return ""
    try:
        text = str(body.get_content())
    except (LookupError, ValueError, KeyError):  # an encoding that does not exist
        raw = body.get_payload(decode=True)
        text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else ""
    if body.get_content_type() == "text/html":
        text = main_text(parse_html(text)).text
    return _INVISIBLE.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).replace("\0", "").strip()
