"""One thread for the products of a network, whatever numpy's library of products would take.

OpenBLAS shares a product out to threads that wait for each other without pause. Where the cores are busy, a page takes
forty times as long then; where they are idle, a note gains little.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from types import TracebackType


class OneBlasThread:
    """Context in which numpy's products take one thread, in the whole process, until the last of several blocks ends.

    One instance serves all who need it: any thread may enter.
    """

    def __init__(self) -> None:
        from threadpoolctl import ThreadpoolController

        self._controller = ThreadpoolController().select(user_api="blas")
        self._lock = threading.Lock()
        self._blocks = 0
        self._limit = ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if not self._blocks:
                self._limit.enter_context(self._controller.limit(limits=1))
            self._blocks += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._blocks -= 1
            if not self._blocks:
                self._limit.close()
