"""Text of a given width: wrapping that knows wide characters and long dotted names."""

from __future__ import annotations

from rich.cells import cell_len, chop_cells

_BREAK_AFTER = "./_-:,\\"


def wrap(text: str, width: int, indent: str = "", first: str | None = None) -> list[str]:
    """Lines of at most `width` terminal cells.

    `first` starts the first line and `indent` the others. Words longer than a line are broken after a dot, slash or
    underscore where there is one.
    """
    lines: list[str] = []
    current = indent if first is None else first
    empty = True
    for word in text.split():
        room = width - cell_len(current) - (0 if empty else 1)
        if cell_len(word) <= room:
            current += ("" if empty else " ") + word
            empty = False
            continue
        if not empty:
            lines.append(current)
            current, empty = indent, True
        for piece in _pieces(word, max(1, width - cell_len(current)), max(1, width - cell_len(indent))):
            if not empty:
                lines.append(current)
                current = indent
            current += piece
            empty = False
    lines.append(current)
    return [line.rstrip() for line in lines]


def _pieces(word: str, room: int, next_room: int) -> list[str]:
    pieces = []
    while cell_len(word) > room:
        head = chop_cells(word, room)[0] or word[0]
        cut = max((head.rfind(mark) + 1 for mark in _BREAK_AFTER), default=0)
        # A break close to the start would leave a ragged column for little gain.
        if cut == 0 or cut < len(head) // 3:
            cut = len(head)
        pieces.append(word[:cut])
        word = word[cut:]
        room = next_room
    return [*pieces, word] if word else pieces
