"""Screenshots in few colours, so that documentation stays small: a PNG of a browser to one with a palette.

Format: "Portable Network Graphics (PNG) Specification", second edition.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_NONE, _SUB, _UP = range(3)


def smaller(data: bytes, colours: int = 64) -> bytes:
    """The same picture with at most so many colours. Raises `ValueError` for a PNG that a browser would not write."""
    pixels = read(data)
    return write(*reduced(pixels, colours))


def read(data: bytes) -> Pixels:
    """The pixels of a PNG of 8 bits a channel, shape (height, width, 3); what is transparent is not looked at."""
    if not data.startswith(_SIGNATURE):
        raise ValueError("this is no PNG")
    packed, place = b"", len(_SIGNATURE)
    width = height = channels = 0
    while place < len(data):
        (size,) = struct.unpack_from(">I", data, place)
        kind, content = data[place + 4 : place + 8], data[place + 8 : place + 8 + size]
        place += size + 12
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", content)
            channels = {2: 3, 6: 4}.get(colour, 0)
            if depth != 8 or not channels or interlaced:
                raise ValueError("this PNG is not of plain colours of 8 bits")
        elif kind == b"IDAT":
            packed += content
    rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + width * channels)
    pixels = np.zeros((height, width, channels), np.uint8)
    for number, row in enumerate(rows):
        line = row[1:].reshape(width, channels)
        if row[0] == _SUB:
            line = np.add.accumulate(line, axis=0, dtype=np.uint8)
        elif row[0] == _UP:
            line = line + pixels[number - 1] if number else line
        elif row[0] != _NONE:
            raise ValueError(f"row {number} is filtered in a way that is not undone here")
        pixels[number] = line
    return pixels[:, :, :3]


def reduced(pixels: Pixels, colours: int) -> tuple[Pixels, Pixels]:
    """A number for each pixel, shape (height, width), and the colours that they stand for, the most frequent of all."""
    flat = pixels.reshape(-1, 3).astype(np.int64)
    found, numbers, counts = np.unique(
        flat[:, 0] << 16 | flat[:, 1] << 8 | flat[:, 2], return_inverse=True, return_counts=True
    )
    table = np.stack([found >> 16, found >> 8 & 255, found & 255], axis=1)
    palette = table[_spread(table, counts, colours)]
    nearest = np.array([int(np.abs(palette - colour).sum(axis=1).argmin()) for colour in table])
    height, width = pixels.shape[:2]
    return nearest[numbers].astype(np.uint8).reshape(height, width), palette.astype(np.uint8)


def _spread(table: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], colours: int) -> list[int]:
    """Frequent colours, each as far from those before it as it is frequent."""
    chosen = [int(counts.argmax())]
    distance = np.abs(table - table[chosen[0]]).sum(axis=1)
    while len(chosen) < min(colours, len(table)):
        best = int((distance.astype(np.float64) ** 2 * np.sqrt(counts)).argmax())
        if not distance[best]:
            break
        chosen.append(best)
        distance = np.minimum(distance, np.abs(table - table[best]).sum(axis=1))
    return chosen


def write(numbers: Pixels, palette: Pixels) -> bytes:
    """A PNG with a palette, of 4 bits a pixel where 16 colours are enough, and else of 8."""
    height, width = numbers.shape
    depth = 8
    if len(palette) <= 16:
        depth = 4
        even = np.pad(numbers, ((0, 0), (0, width % 2)))
        numbers = (even[:, ::2] << 4) | even[:, 1::2]
    rows = np.concatenate([np.zeros((height, 1), np.uint8), numbers], axis=1).tobytes()
    return b"".join(
        (
            _SIGNATURE,
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, 3, 0, 0, 0)),
            _chunk(b"PLTE", palette.tobytes()),
            _chunk(b"IDAT", zlib.compress(rows, 9)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
