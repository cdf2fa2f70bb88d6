"""Names that one holds at a time, for as long as it takes, in each home."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tellback.vectorstore import BusyError, Database


def test_a_name_is_held_by_one_alone_while_others_write(database: Database) -> None:
    def wait_for(name: str, seconds: float) -> str:
        try:
            with database.hold(name, wait=seconds), database.read():
                return "held"
        except BusyError:
            return "busy"

    with ThreadPoolExecutor(1) as pool:
        with database.hold("a"):
            assert pool.submit(wait_for, "a", 0.1).result(10) == "busy"
            assert pool.submit(wait_for, "b", 0.1).result(10) == "held"
            next_one = pool.submit(wait_for, "a", 10)
            with database.write():
                pass
            assert not next_one.done()
        assert next_one.result(10) == "held"
