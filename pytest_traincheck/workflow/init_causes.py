"""Why scripts fail that are tried for the first time, in plain words: no network, no data, no GPU, no module."""

from __future__ import annotations

import re

from pytest_traincheck.launch.diagnosis import missing_module
from pytest_traincheck.scripts.model import Option
from pytest_traincheck.scripts.proposal import Proposal
from pytest_traincheck.scripts.roles import words_of

_NETWORK = re.compile(
    r"Max retries exceeded|name resolution|Name or service not known|Network is unreachable|Connection refused|"
    r"getaddrinfo failed|LocalEntryNotFoundError|OfflineModeIsEnabled|URLError|couldn't connect to|ProxyError"
)
_GPU = re.compile(
    r"not compiled with CUDA|No CUDA GPUs|Found no NVIDIA driver|CUDA driver|no NVIDIA GPU|nccl.*no GPUs|"
    r"ProcessGroupNCCL is only supported with GPUs",
    re.I,
)
_NO_FILE = re.compile(r"(?:FileNotFoundError|NotADirectoryError|No such file or directory).*?['\"]([^'\"\n]+)['\"]")
_DEVICE = frozenset({"device", "cuda", "gpu", "gpus", "cpu", "accelerator", "backend"})


def cause(output: str, proposal: Proposal) -> str:
    """What to do about the failure of a run with this output; empty where its last lines say all that is known."""
    if module := missing_module(output):
        own = proposal.script.sources if proposal.script is not None else ()
        if module in {path.partition("/")[0].removesuffix(".py") for path in own}:
            return ""
        # A library that starts the script may have said it in the middle of what it says of itself.
        return f"Install `{module}` for that interpreter, or name another one with `python` in the configuration."
    if _NETWORK.search(output):
        return (
            "It wanted something from the network that was not to be had. Let it download once before, or give it a "
            "path here."
        )
    if _GPU.search(output):
        named = [option.spelled for option in _of_devices(proposal)]
        these = f": {', '.join(f'`{name}`' for name in named)}" if named else ""
        return f"It wants a GPU, and there is none that torch can use here. Look for an option{these}."
    found = _NO_FILE.findall(output)
    return f"There is no `{found[-1]}`. Get the data first, or name them in the command." if found else ""


def _of_devices(proposal: Proposal) -> tuple[Option, ...]:
    options = proposal.script.options if proposal.script is not None else ()
    return tuple(option for option in options if option.spelled and _DEVICE.intersection(words_of(option.name)))
