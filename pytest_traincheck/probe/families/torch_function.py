"""Calls of torch functions, and of those whose indices or masks are looked at as well."""

from __future__ import annotations

import sys
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch

from ...looks import MASKS_AND_INDICES
from ..context import Call, ThreadState, quiet, unobservable
from ..digest import local
from ..numerics import counting_from, hides_the_future
from ..symbols import Api
from .base import Family

if TYPE_CHECKING:
    from ..recorder import Recorder


class TorchFunction(Family):
    """A torch function. Inside an optimizer's own arithmetic it is not recorded, inside a closure it is."""

    plain = True

    def __init__(self, api: Api) -> None:
        self._api = api
        self.simple = api if self.plain or self.measuring else None

    def api(self, recorder: Recorder, args: tuple[Any, ...]) -> Api | None:
        state = recorder.threads
        if state.in_step and state.stack and state.stack[-1].api.type == "optimizer" and not _in_closure(state):
            return None
        return self._api


class WithContent(TorchFunction):
    """A function with an argument whose content matters and may be the same in every call, like position ids."""

    plain = False
    measuring = True

    def __init__(self, api: Api, name: str) -> None:
        super().__init__(api)
        self._name = name

    def opened(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...]) -> None:
        value = self.parameters.argument(args, call.kwargs, self._name)
        wanted = recorder.measures.wanted and MASKS_AND_INDICES not in recorder.measures.not_needed
        if wanted and isinstance(value, torch.Tensor) and not value.requires_grad:
            recorder.measures.content_of(state, f"content.{self._name}", call, value)
            if not unobservable() and local(value) is not None:
                with quiet(state):
                    value = value.cpu()
                    found = counting_from(value) if self._name == "input" else hides_the_future(value, self._name)
                if found is not None:
                    recorder.measures.take(state, f"pattern.{self._name}", call, float(found))


def _in_closure(state: ThreadState) -> bool:
    if state.closure is None:
        return False
    frame: FrameType | None = sys._getframe(3)
    while frame is not None:
        if frame.f_code is state.closure:
            return True
        frame = frame.f_back
    return False
