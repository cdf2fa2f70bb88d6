"""Names that existing files hold.

The file formats were fixed when the project was called Mneme. Each name stays as it is written: another one would
make existing memories, snapshots, exports and receipts unreadable.
"""

from __future__ import annotations

from typing import Final

APPLICATION_ID: Final = int.from_bytes(b"Mnem")
"""Application id in the header of the SQLite file."""
ANALYZER_FINGERPRINT: Final = "mneme-{version}/{language}"
"""Fingerprint of a text analyzer, recorded with the terms that it made."""
SNAPSHOT_MAGIC: Final = b"\x89Mneme numpy\r\n\x1a\n"
"""First bytes of a snapshot of the numpy store."""
WIPED_COPY_MARK: Final = b"Mneme: a removed copy of "
"""First bytes of a copy that is being overwritten."""
SUMMARY_METADATA_KEY: Final = "mneme.summary"
"""Metadata key of the message that stands for a summarized part of a conversation."""
EXPORT_FORMAT: Final = "tellback export"
"""Format named in the header of an export."""
FORMER_EXPORT_FORMAT: Final = "mneme export"
"""That of exports from before the project was called Tellback."""
RECEIPT_KIND: Final = "mneme receipt"
"""Kind named in a receipt of erasure."""
FORMER_FOLDER: Final = "mneme"
"""Name of the platform's data folder before the project was called Tellback."""
UNFINISHED_FILES: Final = (".tellback-*.part", ".mneme-*.part")
"""Patterns of the files that a killed process leaves beside the one it was writing, now and in former versions."""
