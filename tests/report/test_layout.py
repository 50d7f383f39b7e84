"""Wrapping keeps every character and every width."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from pytest_traincheck.report.layout import wrap

# A busy machine is no failure.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

words = st.text(st.sampled_from("ab._/-漢"), min_size=1, max_size=60)


@unhurried
@given(st.lists(words, max_size=12), st.integers(8, 60), st.integers(0, 4))
def test_nothing_is_lost_and_nothing_is_too_wide(parts: list[str], width: int, indent: int) -> None:
    lines = wrap(" ".join(parts), width, indent=" " * indent)
    assert max(map(cell_len, lines)) <= width
    assert "".join("".join(lines).split()) == "".join(parts)


def test_long_names_break_where_a_reader_expects_it() -> None:
    lines = wrap("transformer.blocks.attention.projection.weight", 30)
    assert lines == ["transformer.blocks.attention.", "projection.weight"]


def test_two_wide_characters_a_line_come_to_an_end() -> None:
    assert wrap("漢" * 5, 8, indent="    ") == ["    漢漢", "    漢漢", "    漢"]
