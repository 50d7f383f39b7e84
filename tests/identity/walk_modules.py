"""Imports the modules named on standard input, one after the other, and prints for each what came of it.

Run as a script. A line is printed before an import too, so that one that ends or hangs the interpreter can be told.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
import warnings


def outcome(name: str) -> str:
    """`ok`, or the type of what the import raised; what it prints is no part of it."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            importlib.import_module(name)
    except BaseException as error:  # noqa: BLE001 - SystemExit of a script that is imported is a result like others
        return type(error).__name__
    return "ok"


def main() -> None:
    warnings.simplefilter("ignore")
    names = sys.stdin.read().split()
    sys.argv = ["program"]
    for name in names:
        print("import", name, flush=True)
        print("result", name, outcome(name), flush=True)
    print("end", flush=True)


if __name__ == "__main__":
    main()
