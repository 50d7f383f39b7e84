"""Tensors that are remembered by their memory."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

torch = pytest.importorskip("torch")

from pytest_traincheck.probe.storages import Counts, remembered  # noqa: E402


def test_the_numbers_are_there_as_long_as_somebody_holds_them() -> None:
    tensor = torch.arange(12.0).view(3, 4)
    part = tensor[1:, ::2]
    held = remembered(part)
    assert held is not None
    assert held.is_of(part)
    assert not held.is_of(tensor)
    again = held()
    assert again is not None
    assert again.tolist() == part.tolist()
    del again, part
    assert held.alive  # the whole holds it
    dead = weakref.ref(tensor)
    del tensor
    gc.collect()
    assert dead() is None
    assert not held.alive
    assert held() is None


def test_the_tensor_itself_has_no_weak_reference() -> None:
    one, two = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.zeros(2))
    assert remembered(one) is not None
    assert not weakref.getweakrefs(one)
    torch.utils.swap_tensors(one, two)
    assert one.tolist() == [0, 0]


def test_what_is_forgotten_counts_as_given_back() -> None:
    tensor = torch.ones(3)
    held = remembered(tensor)
    assert held is not None
    for _ in range(2):  # another thread may have been faster
        held.forget()
        assert not held.alive
        assert held() is None
        assert not held.is_of(tensor)
    assert tensor.tolist() == [1, 1, 1]


def test_what_has_no_memory_is_not_remembered() -> None:
    freed = torch.ones(4)
    freed.untyped_storage().resize_(0)
    for tensor in (torch.ones(3, device="meta"), torch.ones(3).to_sparse(), freed):
        assert remembered(tensor) is None


def test_threads_that_forget_what_others_ask_for() -> None:
    tensors = [torch.ones(4) for _ in range(50)]
    shared = [remembered(tensor) for tensor in tensors]

    def work() -> None:
        for held in shared * 20:
            assert held is not None
            held.alive  # noqa: B018 - asked for while the others forget
            held()
            held.forget()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not any(held.alive for held in shared if held is not None)


def test_counts_are_of_the_memory_and_end_with_it() -> None:
    counts = Counts()
    weight = torch.nn.Parameter(torch.ones(3))
    counts.add(weight)
    counts.add(weight.data)
    assert counts.of(weight) == 2
    assert counts.of(weight.clone()) == 0
    for _ in range(3000):
        counts.add(torch.ones(2))
    assert counts.of(weight) == 2
    assert len(counts._found) < 3000
