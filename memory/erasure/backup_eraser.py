"""Erasure from the memory's own backups: each is opened as a memory, and the same is forgotten there.

A backup that still holds a forgotten text afterwards, or cannot be opened, is overwritten and removed. Copies that were
put elsewhere are not touched; a receipt names them (``external_copies``). What is to be erased is noted durably before
the memory itself forgets: whoever comes next finishes the work of a process that was killed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from tellback.memory.backup_files import kept_backups, locked_folder, read_mark, remove_mark, write_mark
from tellback.memory.backups import remove_backup
from tellback.memory.erasure.file_search import MIN_TEXT_LENGTH, run_search, text_pieces
from tellback.memory.errors import NoSuchMemory
from tellback.memory.results import Receipt
from tellback.memory.runtime import run_sync
from tellback.vectorstore import BusyError, FileDatabase

_SECONDS_TO_WAIT: Final = 60.0
_log = logging.getLogger(__name__)


class BackupCopy(Protocol):
    """A backup that is open as a memory, as far as forgetting needs it."""

    async def forget(self, ids: Sequence[str], *, namespace: str, dry_run: bool = False) -> Receipt:
        """As ``LongTermMemory.forget``."""

    async def forget_namespace(self, namespace: str) -> Receipt:
        """As ``LongTermMemory.forget_namespace``."""

    async def close(self) -> None:
        """As ``LongTermMemory.close``."""


@dataclass(frozen=True, slots=True)
class ForgottenPart:
    """Part of a namespace that is forgotten: memories by id, words, or all that is in it (*whole*)."""

    namespace: str
    ids: Sequence[str] = ()
    texts: Sequence[str] = ()
    whole: bool = False


@dataclass(eq=False)
class BackupErasure:
    """Erasure of one forgetting from the backups; *changed* counts those that were rewritten or removed."""

    parts: list[ForgottenPart] = field(default_factory=list)
    changed: int = 0
    pending: bool = False

    def mark(self) -> Mapping[str, Any]:
        """Return what another process needs to finish it. Texts are not written down: *exact* is false without ids."""
        exact = all(part.ids or part.whole for part in self.parts)
        parts = [{"namespace": part.namespace, "ids": [*part.ids], "whole": part.whole} for part in self.parts]
        return {"exact": exact, "parts": parts}


@dataclass(frozen=True, slots=True)
class BackupEraser:
    """Erases from the backups in the folder beside the *database*; *open_copy* opens one of them as a memory."""

    database: FileDatabase | None
    open_copy: Callable[[Path], BackupCopy] | None

    @contextmanager
    def erasing(self) -> Iterator[BackupErasure]:
        """Yield an erasure to fill and note in the block, before the memory's own commit; it is done after the block.

        An error in the block leaves the backups as they are.
        """
        erasure, memory = BackupErasure(), self._memory
        if memory is None or not kept_backups(memory):
            yield erasure
            return
        with locked_folder(memory, wait=_SECONDS_TO_WAIT) as is_locked:
            if not is_locked:
                yield erasure
                erasure.pending = bool(erasure.parts)
                return
            self._finish_marked(memory)
            try:
                yield erasure
            except BaseException:
                remove_mark(memory)
                raise
            if erasure.parts:
                self._erase(memory, erasure)
            remove_mark(memory)

    def note(self, erasure: BackupErasure) -> None:
        """Write *erasure* durably, before the transaction of the memory itself is over."""
        if erasure.parts and self._memory is not None and kept_backups(self._memory):
            write_mark(self._memory, erasure.mark())

    def finish(self) -> bool:
        """Finish the erasures that a killed process left; return whether none is pending."""
        memory = self._memory
        if memory is None or read_mark(memory) is None:
            return True
        with locked_folder(memory, wait=0.0) as is_locked:
            if is_locked:
                self._finish_marked(memory)
            return is_locked

    @property
    def _memory(self) -> Path | None:
        return None if self.open_copy is None or self.database is None else self.database.path

    def _finish_marked(self, memory: Path) -> None:
        mark = read_mark(memory)
        if mark is None:
            return
        if mark.get("exact"):
            self._erase(memory, BackupErasure([ForgottenPart(**part) for part in mark["parts"]]))
        else:  # its texts are not known any more
            for path in kept_backups(memory):
                self._remove(path)
        remove_mark(memory)

    def _erase(self, memory: Path, erasure: BackupErasure) -> None:
        rewritten = []
        for path in kept_backups(memory):
            try:
                erasure.changed += self._forget_in(path, erasure.parts)
            except Exception as error:  # whatever keeps it from being rewritten, the text must go
                _log.warning("%s is removed: it could not be rewritten (%s)", path, type(error).__name__)
                self._remove(path)
                erasure.changed += 1
            else:
                rewritten.append(path)
        texts = [text.strip() for part in erasure.parts for text in part.texts]
        untold = any(len(text) < MIN_TEXT_LENGTH for part in erasure.parts if not part.ids for text in part.texts)
        for path in rewritten if untold else self._holding(rewritten, texts):
            self._remove(path)
            erasure.changed += 1

    def _forget_in(self, path: Path, parts: Sequence[ForgottenPart]) -> bool:
        """Forget in the backup at *path*; return whether anything of it was there."""
        assert self.open_copy is not None
        copy, changed = self.open_copy(path), False
        try:
            for part in parts:
                for receipt in _forgotten_in(copy, part):
                    if receipt.pending:
                        raise BusyError(f"{path}: another process reads it")
                    changed = changed or bool(receipt.ids or receipt.messages)
        finally:
            run_sync(copy.close())
        return changed

    def _holding(self, paths: Sequence[Path], texts: Sequence[str]) -> list[Path]:
        """Return those of *paths* in whose bytes one of *texts* is, and those that cannot be searched."""
        pieces = [piece for text in texts if len(text) >= MIN_TEXT_LENGTH for piece in text_pieces(text)]
        if not paths or not pieces:
            return []
        answer = run_search([str(path) for path in paths], pieces)
        return [path for path in paths if answer["found"].get(str(path)) or str(path) in answer["unread"]]

    def _remove(self, path: Path) -> None:
        assert self.database is not None
        remove_backup(self.database, path)


def _forgotten_in(copy: BackupCopy, part: ForgottenPart) -> Iterator[Receipt]:
    """Forget *part* in the *copy*; yield the receipts."""
    if part.whole:
        yield run_sync(copy.forget_namespace(part.namespace))
    for ids in _known_groups(copy, part.ids, part.namespace) if part.ids else ():
        yield run_sync(copy.forget(ids, namespace=part.namespace))


def _known_groups(copy: BackupCopy, ids: Sequence[str], namespace: str) -> Iterator[list[str]]:
    """Yield the *ids* that the *copy* knows: all at once where it knows all."""
    try:
        run_sync(copy.forget(list(ids), namespace=namespace, dry_run=True))
    except NoSuchMemory:
        if len(ids) > 1:
            middle = len(ids) // 2
            yield from _known_groups(copy, ids[:middle], namespace)
            yield from _known_groups(copy, ids[middle:], namespace)
        return
    yield list(ids)
