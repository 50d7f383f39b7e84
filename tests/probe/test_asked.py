"""Functions of the user's that call a model and are asked for a number of something."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
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


class Told:
    def __init__(self, decoder: nn.Module, count: int, made: Any) -> None:
        self.told = decoder, count, made


def keeps_its_names(decoder: nn.Module, count: int) -> Any:
    with torch.no_grad():
        made = decoder(torch.zeros(count, dtype=torch.int64))
    return Told(**locals())


def test_a_function_that_looks_at_its_own_variables_is_left_alone(watched: Watch) -> None:
    code = keeps_its_names.__code__
    trace = watched(lambda: [keeps_its_names(Decoder(), count) for count in (1, 2, 3)])
    assert not [call for call in trace.calls if call.type == "asked"]
    assert keeps_its_names.__code__ is code
    assert trace.meta["unobserved"] == {}


def unasked(model: Decoder = Painter.net) -> Any:
    with torch.no_grad():
        return model(torch.zeros(2, dtype=torch.int64))


class Held:
    net = Painter.net

    def unasked(self) -> Any:
        with torch.no_grad():
            return self.net(torch.zeros(2, dtype=torch.int64))


def of_nothing() -> Any:
    return unasked()


def test_what_takes_no_argument_keeps_its_code(watched: Watch) -> None:
    seen = []

    def run() -> None:
        for _ in range(3):
            of_nothing()
            Held().unasked()
        seen.extend([of_nothing.__code__, Held.unasked.__code__])

    codes = [of_nothing.__code__, Held.unasked.__code__]
    watched(run)
    assert all(now is then for now, then in zip(seen, codes, strict=True))


def test_the_code_of_such_a_function_can_be_pickled_and_does_there_what_it_does(watched: Watch) -> None:
    """As by those who send functions of a script to other processes by value."""
    source, found = torch.zeros(2, dtype=torch.int64), []

    def run() -> None:
        for _ in range(2):
            Painter.paint(3)
            spell(Decoder(), Painter.net, source, 2)
        for function in (Painter.paint.__func__, spell.__wrapped__):  # type: ignore[attr-defined]
            inner = [const for const in function.__code__.co_consts if isinstance(const, CodeType)]
            others = [const for const in function.__code__.co_consts if const not in inner]
            assert any(callable(const) and not isinstance(const, type) for const in others)
            again = pickle.loads(pickle.dumps(others))
            found.append(
                FunctionType(function.__code__.replace(co_consts=_in_order(function, inner, again)), globals())
            )

    watched(run)
    paint, spelled = found
    assert paint(Painter, 3).shape == (3, 4)
    with torch.no_grad():
        assert spelled(Decoder(), Painter.net, source, 2).shape == (2, 2)


def _in_order(function: Any, inner: list[CodeType], again: list[Any]) -> tuple[Any, ...]:
    rest = iter(again)
    return tuple(const if const in inner else next(rest) for const in function.__code__.co_consts)
