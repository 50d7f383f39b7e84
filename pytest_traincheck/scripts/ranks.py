"""Whether a script can only be started by a launcher of several ranks."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from pytest_traincheck.scripts.source import Source, called, literal

_LAUNCHED = ("init_process_group", "init_distributed")
_OWN_LAUNCH = ("spawn", "start_processes")
_VARIABLES = frozenset({"RANK", "LOCAL_RANK", "WORLD_SIZE"})


def only_with_ranks(sources: Sequence[Source]) -> bool:
    """Whether ranks are set up in any case, from what a launcher says: a script that asks first runs alone, too."""
    names = {called(call) for source in sources for call in source.calls}
    if not names.intersection(_LAUNCHED) or names.intersection(_OWN_LAUNCH):
        return False
    return not any(_asks(node) for source in sources for node in source.nodes)


def _asks(node: ast.AST) -> bool:
    """Whether it looks for a launcher, with something else to do where there is none."""
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
        return literal(node.left) in _VARIABLES
    if isinstance(node, ast.Call) and called(node) in ("get", "getenv") and len(node.args) > 1:
        return literal(node.args[0]) in _VARIABLES
    if isinstance(node, ast.If):
        launches = any(isinstance(part, ast.Call) and called(part) in _LAUNCHED for part in ast.walk(node))
        # Being the program itself is no such condition.
        return launches and not any(
            isinstance(part, ast.Name) and part.id == "__name__" for part in ast.walk(node.test)
        )
    return False
