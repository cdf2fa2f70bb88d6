"""Width and height of an image from its header: PNG, GIF, JPEG, WebP. Reads no pixel and trusts no length."""

from __future__ import annotations

# Start-of-frame markers of JPEG: all C0-CF but the tables C4 (Huffman), C8 (reserved) and CC (arithmetic).
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_BARE_MARKERS = frozenset({0x01, *range(0xD0, 0xD8)})


def image_size(data: bytes) -> tuple[int, int] | None:
    """Return (width, height), or None where the header is unknown, cut or says zero."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        size = _big(data, 16, 4), _big(data, 20, 4)
    elif data[:6] in (b"GIF87a", b"GIF89a"):
        size = _little(data, 6, 2), _little(data, 8, 2)
    elif data.startswith(b"\xff\xd8"):
        size = _jpeg(data)
    elif data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        size = _webp(data)
    else:
        return None
    return size if min(size) > 0 else None


def _jpeg(data: bytes) -> tuple[int, int]:
    position = 2
    while position + 4 <= len(data):
        if data[position] != 0xFF:
            return 0, 0
        marker = data[position + 1]
        if marker == 0xFF:  # fill byte
            position += 1
        elif marker in _BARE_MARKERS:
            position += 2
        elif marker in _FRAMES:
            return _big(data, position + 7, 2), _big(data, position + 5, 2)
        else:
            position += 2 + max(_big(data, position + 2, 2), 2)
    return 0, 0


def _webp(data: bytes) -> tuple[int, int]:
    kind = data[12:16]
    if kind == b"VP8X" and len(data) >= 30:
        return _little(data, 24, 3) + 1, _little(data, 27, 3) + 1
    if kind == b"VP8L" and data[20:21] == b"\x2f" and len(data) >= 25:
        bits = _little(data, 21, 4)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        return _little(data, 26, 2) & 0x3FFF, _little(data, 28, 2) & 0x3FFF
    return 0, 0


def _big(data: bytes, start: int, length: int) -> int:
    part = data[start : start + length]
    return int.from_bytes(part, "big") if len(part) == length else 0


def _little(data: bytes, start: int, length: int) -> int:
    part = data[start : start + length]
    return int.from_bytes(part, "little") if len(part) == length else 0
