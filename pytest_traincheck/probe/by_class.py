"""What is known of classes."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class ByClass(Generic[T]):
    """A table of classes. A metaclass of the user's may say what hash its classes have and what they are equal to, so
    they are told apart by `id`; they are held, so that no `id` comes twice.
    """

    def __init__(self) -> None:
        self._found: dict[int, tuple[type, T]] = {}

    def get(self, cls: type) -> T | None:
        """What was put in for a class."""
        found = self._found.get(id(cls))
        return None if found is None else found[1]

    def put(self, cls: type, value: T) -> T:
        """Remember something about a class, and hand it back."""
        self._found[id(cls)] = (cls, value)
        return value
