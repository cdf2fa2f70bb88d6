"""Guards for compressed files: a bounded gunzip, and ZIP archives of XML whose members are read within limits."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator
from posixpath import dirname, join, normpath
from typing import Final
from xml.etree.ElementTree import Element as XmlElement
from xml.etree.ElementTree import ParseError, fromstring  # expat: no external entities, bounded internal ones

from tellback.memory.documents.loaders.base import LoadLimits
from tellback.memory.errors import LoadError

_MAX_MEMBERS: Final = 20_000
MAX_XML_DEPTH: Final = 150
_ENCRYPTED: Final = 0x1


def gunzip(data: bytes, source: str, limits: LoadLimits) -> bytes:
    """Return the bytes that are packed in *data*; more than ``limits.unpacked`` of them raise ``LoadError``."""
    unpacked = bytearray()
    rest = data
    while rest:
        stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            unpacked += stream.decompress(rest, limits.unpacked - len(unpacked) + 1)
        except zlib.error as error:
            raise LoadError(source, "damaged: not the gzip file that it begins as") from error
        if len(unpacked) > limits.unpacked:
            raise LoadError(source, f"unpacks to more than {limits.unpacked / 1e6:.0f} MB")
        if not stream.eof:
            raise LoadError(source, "ends in the middle of the gzip file")
        rest = stream.unused_data.lstrip(b"\0")
    return bytes(unpacked)


class Archive:
    """ZIP archive *data* whose members together unpack to at most ``limits.unpacked`` bytes."""

    def __init__(self, data: bytes, source: str, limits: LoadLimits) -> None:
        self._source = source
        self._left = limits.unpacked
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise LoadError(source, "damaged: not the ZIP archive that it should be") from error
        members = self._zip.infolist()
        if len(members) > _MAX_MEMBERS or sum(member.file_size for member in members) > limits.unpacked:
            raise LoadError(source, f"unpacks to more than {limits.unpacked / 1e6:.0f} MB")
        if any(member.flag_bits & _ENCRYPTED for member in members):
            raise LoadError(source, "encrypted; take the password off first")
        self.names: Final = frozenset(member.filename for member in members)

    def read(self, name: str) -> bytes:
        """Return the member called *name*; one that is missing or damaged raises ``LoadError``."""
        try:
            with self._zip.open(name) as member:
                data = member.read(self._left + 1)
        except KeyError as error:
            raise LoadError(self._source, f"damaged: {name} is missing in it") from error
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
            raise LoadError(self._source, f"damaged: {name} in it cannot be unpacked") from error
        self._left -= len(data)
        if self._left < 0:
            raise LoadError(self._source, "unpacks to more than it says")
        return data

    def xml(self, name: str) -> XmlElement:
        """Return the root of the XML member called *name*."""
        try:
            return fromstring(self.checked_xml(name))  # noqa: S314
        except (ParseError, ValueError) as error:
            raise LoadError(self._source, f"damaged: {name} in it is no XML") from error

    def checked_xml(self, name: str) -> bytes:
        """Return the XML member called *name* as it is; one that declares entities raises ``LoadError``."""
        data = self.read(name)
        if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
            raise LoadError(self._source, f"{name} in it declares entities; not read")
        return data

    def optional_xml(self, name: str) -> XmlElement | None:
        """Return the root of a member that need not be there."""
        return self.xml(name) if name in self.names else None

    def relations(self, part: str) -> dict[str, str]:
        """Return the parts that *part* of an Office file names, by id."""
        folder, _, name = part.rpartition("/")
        root = self.optional_xml(f"{folder}/_rels/{name}.rels")
        return {
            relation.get("Id", ""): resolve(part, relation.get("Target", ""))
            for relation in (root if root is not None else ())
            if relation.get("TargetMode") != "External"
        }


def resolve(part: str, target: str) -> str:
    """Return the name of the member that *part* calls *target*."""
    return target.lstrip("/") if target.startswith("/") else normpath(join(dirname(part), target))


def local_name(element: XmlElement) -> str:
    """Return the tag of *element* without its namespace."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def attribute(element: XmlElement, name: str) -> str:
    """Return the attribute *name* of *element* in any namespace; "" for none."""
    return next((value for key, value in element.attrib.items() if key.rpartition("}")[2] == name), "")


def child(element: XmlElement | None, *path: str) -> XmlElement | None:
    """Return the first element below *element* at *path*, a list of local names."""
    for name in path:
        element = next((inner for inner in element if local_name(inner) == name), None) if element is not None else None
    return element


def below(element: XmlElement, name: str) -> Iterator[XmlElement]:
    """Yield all elements called *name* in *element*, in order."""
    return (inner for inner in element.iter() if local_name(inner) == name)


def core_fields(root: XmlElement | None) -> dict[str, str]:
    """Return title, author and dates of an Office file or a book by their names in Dublin Core."""
    fields: dict[str, str] = {}
    for element in root.iter() if root is not None else ():
        text = (element.text or "").strip()[:200]
        if text and (name := _CORE_FIELDS.get(local_name(element))):
            fields.setdefault(name, text)
    return fields


_CORE_FIELDS: Final = {
    "title": "title",
    "creator": "author",
    "initial-creator": "author",
    "created": "created",
    "creation-date": "created",
    "date": "created",
}
