"""The screenshots of the documentation: those that the command makes, small, and each shown."""

from __future__ import annotations

import re
import struct
import sys
import zlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "guides" / "report.md"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    import pictures

    return pictures


def test_ten_pictures_are_made_shown_and_small(module: ModuleType) -> None:
    shown = re.findall(r"!\[([^\]]+)\]\(\.\./pictures/([a-z-]+)\.png\)", PAGE.read_text(encoding="utf-8"))
    assert [name for _, name in shown] == list(module.SHOTS)
    assert len(shown) == 10
    files = {path.stem: path for path in (ROOT / "docs" / "pictures").glob("*.png")}
    assert files.keys() == module.SHOTS.keys()
    assert all(path.stat().st_size <= module.LIMIT for path in files.values())


def png(pixels: np.ndarray, filtered: int) -> bytes:
    """A PNG as a browser writes it, of pixels of shape (height, width, 3)."""
    height, width = pixels.shape[:2]
    before = np.zeros_like(pixels)
    if filtered == 1:
        before[:, 1:] = pixels[:, :-1]
    elif filtered == 2:
        before[1:] = pixels[:-1]
    rows = np.concatenate([np.full((height, 1), filtered, np.uint8), (pixels - before).reshape(height, -1)], axis=1)

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows.tobytes()))
        + chunk(b"IEND", b"")
    )


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize("filtered", [0, 1, 2])
@pytest.mark.parametrize("colours", [3, 40])
def test_few_colours_stay_what_they_are(filtered: int, colours: int) -> None:
    from small_png import read, reduced, smaller

    made = np.random.default_rng(0)
    palette = made.integers(0, 256, (colours, 3), dtype=np.uint8)
    pixels = palette[made.integers(0, colours, (9, 7))]
    assert (read(png(pixels, filtered)) == pixels).all()
    numbers, chosen = reduced(pixels, 64)
    assert (chosen[numbers] == pixels).all()
    assert smaller(png(pixels, filtered)).startswith(b"\x89PNG")


@pytest.mark.usefixtures("module")
def test_many_colours_become_few() -> None:
    from small_png import reduced

    pixels = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    numbers, chosen = reduced(pixels, 16)
    assert len(chosen) == 16
    assert numbers.shape == (40, 40)
