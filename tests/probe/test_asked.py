"""Functions of the user's that call a model and are asked for a number of something."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from measuring import Watch  # noqa: E402
from torch import nn  # noqa: E402

pytestmark = pytest.mark.usefixtures("seeded")


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(9, 4)

    def forward(self, word: Any) -> Any:
        return self.words(word)

    def write(self, prompt: Any, length: int = 3) -> Any:
        with torch.no_grad():
            return torch.stack([self(prompt) for _ in range(length)], 1)


@torch.no_grad()
def spell(encoder: nn.Module, decoder: nn.Module, source: Any, limit: int) -> Any:
    encoder(source)
    return torch.stack([one(decoder, source) for _ in range(limit)], 1)


def one(decoder: nn.Module, word: Any) -> Any:
    return decoder(word).argmax(-1)


class Painter:
    net = Decoder()

    @classmethod
    def paint(cls, count: int) -> Any:
        with torch.no_grad():
            return cls.net(torch.zeros(count, dtype=torch.int64))


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return inner


@logged
def outer(decoder: nn.Module, times: int) -> None:
    for _ in range(times):
        with torch.no_grad():
            decoder(torch.zeros(2, dtype=torch.int64))
        if times > 100:
            raise ValueError("too many")


def evaluate(decoder: nn.Module, batch: Any) -> Any:
    with torch.no_grad():
        return decoder(batch)


def free(decoder: nn.Module, **options: Any) -> Any:
    """What a subclass overrides takes whatever its library hands over by name."""
    with torch.no_grad():
        return [decoder(torch.zeros(2, dtype=torch.int64)) for _ in range(options["times"])]


def each(decoder: nn.Module, times: int) -> Iterator[Any]:
    for _ in range(times):
        yield evaluate(decoder, torch.zeros(2, dtype=torch.int64))


def trains(decoder: nn.Module, times: int) -> None:
    for _ in range(times):
        decoder(torch.zeros(2, dtype=torch.int64)).sum().backward()


def test_calls_from_the_second_on(watched: Watch) -> None:
    encoder, decoder = Decoder(), Decoder()
    source = torch.zeros(2, dtype=torch.int64)

    def run() -> None:
        for limit in (5, 6, 7):
            spell(encoder, decoder, source, limit)
            decoder.write(source)
            Painter.paint(limit)
            outer(decoder, limit)
            evaluate(decoder, source)
            free(decoder, times=limit)
            list(each(decoder, 2))
            trains(decoder, 2)
        with pytest.raises(ValueError, match="too many"):
            outer(decoder, 200)
        spell(encoder, decoder, source, limit=8)

    trace = watched(run)
    calls = [call for call in trace.calls if call.type == "asked"]
    numbers = trace.values("asked.calls")
    found = [(call.name.rpartition("test_asked.")[2], number) for call, number in zip(calls, numbers, strict=True)]
    assert [made for name, made in found if name == "spell"] == [6.0, 7.0, 8.0]
    assert [made for name, made in found if name == "Decoder.write"] == [3.0, 3.0]
    assert [made for name, made in found if name == "Painter.paint"] == [1.0, 1.0]
    assert [made for name, made in found if name == "outer"] == [6.0, 7.0]
    assert [made for name, made in found if name == "free"] == [6.0, 7.0]
    assert {name for name, _ in found} == {"spell", "Decoder.write", "Painter.paint", "outer", "free"}
    assert [call.args["length"] for call in calls if call.name.endswith("write")] == [3, 3]
    assert all(call.parent == 0 for call in calls)
    assert trace.meta["unobserved"] == {}
