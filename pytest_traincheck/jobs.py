"""How many runs are made at a time: a number, or `auto` for what the machine has room for."""

from __future__ import annotations

AUTO = "auto"
Jobs = int | str
"""A number above 0, or `AUTO`."""

MOST = 1024


def jobs_of(value: object) -> Jobs | None:
    """The number of jobs that a value of the configuration or a word of the command line stands for, if it is one."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value[:9])
    if value == AUTO:
        return AUTO
    return value if type(value) is int and 0 < value <= MOST else None
