"""How often each API was called in a trace."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_traincheck.report.pictures.picture import Picture, Table, bar
from pytest_traincheck.text import one_line, plural

_SHOWN = 20


def calls(counts: Sequence[tuple[str, int]]) -> Picture:
    """A row for each of the APIs that were called most."""
    most = max((number for _, number in counts), default=1)
    rows = [(one_line(name), bar([("p-candidate", number)], most), str(number)) for name, number in counts[:_SHOWN]]
    more = len(counts) - len(rows)
    return Picture(
        "calls",
        "What was called most?",
        f"{plural(sum(number for _, number in counts), 'call')} of {plural(len(counts), 'API')}"
        + (f", {more} of which are left out here." if more else "."),
        (),
        Table(("API", "calls", "number"), tuple(rows)),
        open=True,
    )
