"""Errors of the vector store: one tree; each error has its data and says what to do.

VectorStoreError
├── ArgumentError            a value given by the caller (also a ValueError): argument, value, expected
│   ├── FilterError          a filter that the language does not know
│   └── DimensionError       a vector of another length than the space: given, dimension
├── RevisionConflict         the entry was written by someone else meanwhile: id, namespace, expected, actual
├── SpaceMismatch            the store was filled with other vectors: recorded, given
│   └── SpaceChanged         the store was switched to another space since it was opened here
├── SpaceNotReady            a space migration is not begun, is to another space, or lacks vectors: filling, pending
├── SettingMismatch          analyzer or fields differ from those recorded in the file
├── UnsupportedError         this store cannot do that: operation
├── MissingExtra             an optional dependency is not installed: extra
├── StoreClosed              used after close()
├── ForkedError              a connection carried over a fork
├── BusyError                another process holds the file too long
├── ServerUnavailable        a database server cannot be reached, or was lost in the call
├── StorageFull              no room on the disk
├── StorageUnwritable        no permission, read-only file or folder, a folder where a file should be
├── NotAStore                the file belongs to another program, or is not whole: path
├── NewerFile                written by a newer version of this package: path, found, known
└── DamageError              stored bytes are not what was written: findings
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tellback.vectorstore.types import Finding, Space


def short_repr(value: object, limit: int = 80) -> str:
    """*value* as an error text shows it: repr, cut to *limit* characters."""
    try:
        text = repr(value)
    except Exception as error:  # a broken __repr__ must not hide the error being reported
        text = f"<{type(value).__name__}: repr failed with {type(error).__name__}>"
    return text if len(text) <= limit else text[: limit - 1] + "…"


class VectorStoreError(Exception):
    """Base of everything this package raises on purpose."""


class ArgumentError(VectorStoreError, ValueError):
    """A caller's value is unusable; nothing was written."""

    def __init__(self, argument: str, value: object, expected: str) -> None:
        self.argument = argument
        self.value = value
        self.expected = expected
        super().__init__(f"{argument}: {expected}, got {short_repr(value)}")


class FilterError(ArgumentError):
    """A filter uses an operator or a shape that the language does not have."""


class DimensionError(ArgumentError):
    """A vector has another length than the space of the store."""

    def __init__(self, argument: str, given: int, dimension: int) -> None:
        self.given = given
        self.dimension = dimension
        super().__init__(argument, given, f"a vector of {dimension} numbers is needed")


class RevisionConflict(VectorStoreError):
    """*expect* named a revision that is no longer the entry's; read it again and decide anew."""

    def __init__(self, id: str, namespace: str, expected: int, actual: int) -> None:
        self.id = id
        self.namespace = namespace
        self.expected = expected
        self.actual = actual
        was = f"is at revision {actual}" if actual else "does not exist"
        super().__init__(f"entry {short_repr(id)} {was}, not at {expected}; read it again before writing")


class SpaceMismatch(VectorStoreError):
    """The store was filled with vectors of another space; re-embed it or open it with its own."""

    def __init__(self, recorded: Space | None, given: Space | None) -> None:
        self.recorded = recorded
        self.given = given
        super().__init__(f"the store holds vectors of {recorded}, not of {given}; re-embed it or use its own")


class SpaceChanged(SpaceMismatch):
    """The store was switched to another space since it was opened here; open it again, with its vectors."""


class SpaceNotReady(VectorStoreError):
    """A second space cannot be begun, filled or switched to now.

    *filling* is the space being filled, *pending* the number of entries without a vector there, by namespace.
    """

    def __init__(self, what: str, *, filling: Space | None, pending: Mapping[str, int] | None = None) -> None:
        self.filling = filling
        self.pending = dict(pending or {})
        super().__init__(what)


class SettingMismatch(VectorStoreError):
    """A setting recorded on first use differs from the one given."""

    def __init__(self, setting: str, recorded: object, given: object) -> None:
        self.setting = setting
        self.recorded = recorded
        self.given = given
        super().__init__(
            f"{setting}: the store was made with {short_repr(recorded)}, not with {short_repr(given)}; "
            "leave it out to use what the store has"
        )


class UnsupportedError(VectorStoreError):
    """The store lacks an operation of the lifecycle part."""

    def __init__(self, operation: str, reason: str) -> None:
        self.operation = operation
        super().__init__(f"{operation}: {reason}")


class MissingExtra(VectorStoreError, ImportError):
    """An optional dependency is not installed; *install* is the command for the installation in use."""

    def __init__(self, what: str, extra: str) -> None:
        from tellback.vectorstore.installation import install_command

        self.extra = extra
        self.install = install_command(extra)
        super().__init__(f"{what} needs the extra '{extra}': {self.install}")


class StoreClosed(VectorStoreError):
    """The store or database was closed."""

    def __init__(self, what: str = "the store") -> None:
        super().__init__(f"{what} is closed; open it again")


class ForkedError(VectorStoreError):
    """An open database was carried into a forked child process, which SQLite forbids."""

    def __init__(self, why: str = "this store was opened before a fork; open it again in the child process") -> None:
        super().__init__(why)


class BusyError(VectorStoreError):
    """Another process or thread held the file longer than the busy timeout; try again."""


class ServerUnavailable(VectorStoreError):
    """A database server cannot be reached, or was lost in the call; nothing of it is kept but what was committed.

    A write that was lost while it committed may be there or not: look, or repeat it with a key.
    """


class StorageFull(VectorStoreError):
    """The disk is full; nothing of the call was written."""


class StorageUnwritable(VectorStoreError):
    """The file or its folder cannot be written or made."""


class NotAStore(VectorStoreError):
    """The file belongs to something else, or is not whole; it was left untouched."""

    def __init__(self, path: str, why: str) -> None:
        self.path = path
        super().__init__(f"{path}: {why}")


class NewerFile(VectorStoreError):
    """The file was written by a newer version; it was left untouched."""

    def __init__(self, path: str, part: str, found: int, known: int) -> None:
        self.path = path
        self.part = part
        self.found = found
        self.known = known
        super().__init__(f"{path}: its {part} has version {found}, this Tellback knows {known}; upgrade Tellback")


class DamageError(VectorStoreError):
    """Stored bytes are not what was written; ``verify`` lists everything, ``salvage_store`` saves what is readable.

    *place* names the file where it is not the opened one.
    """

    def __init__(self, findings: Sequence[Finding] | str, *, place: str = "") -> None:
        self.findings: tuple[Finding, ...] = () if isinstance(findings, str) else tuple(findings)
        text = findings if isinstance(findings, str) else "; ".join(str(finding) for finding in findings[:3])
        super().__init__(": ".join(filter(None, ("damaged data", place, text))))
