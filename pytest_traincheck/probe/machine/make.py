"""Compiles `observe.c` into `code.py`: `python make.py`, with gcc and gcc-aarch64-linux-gnu on the machine.

The bytes lie in the repository because the probe must work where there is no compiler. `--check` compiles nothing
anew: it says whether the file at hand was made from this source, with the compilers that made it.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE / "observe.c"
TARGET = HERE / "code.py"
COMPILERS = {
    "x86_64": ("gcc", "objdump", "objcopy", "-fcf-protection=branch"),
    "aarch64": ("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-objdump", "aarch64-linux-gnu-objcopy",
                "-mbranch-protection=standard"),
}  # fmt: skip
FLAGS = ("-Os", "-fPIC", "-ffreestanding", "-fno-stack-protector", "-fno-asynchronous-unwind-tables",
         "-fno-unwind-tables", "-fomit-frame-pointer", "-Wall", "-Wextra", "-Werror")  # fmt: skip
ENTRIES = ("function_called", "method_called", "called")


def compiled(machine: str) -> tuple[bytes, dict[str, int]]:
    """The machine code of the source and where its functions begin. Raises `CalledProcessError`, `ValueError`."""
    compiler, dump, copy, protection = COMPILERS[machine]
    with tempfile.TemporaryDirectory() as directory:
        made, text = Path(directory, "observe.o"), Path(directory, "text")
        subprocess.run([compiler, *FLAGS, protection, "-c", str(SOURCE), "-o", str(made)], check=True)
        table = subprocess.run([dump, "-tr", str(made)], check=True, capture_output=True, text=True).stdout
        if "RELOCATION RECORDS FOR [.text]" in table:
            raise ValueError(f"the code for {machine} is not independent of its place:\n{table}")
        subprocess.run([copy, "-O", "binary", "--only-section=.text", str(made), str(text)], check=True)
        lines = [line.split() for line in table.splitlines() if ".text" in line]
        return text.read_bytes(), {words[-1]: int(words[0], 16) for words in lines if words[-1] in ENTRIES}


def source_digest() -> str:
    """What ties the bytes to the source that they were made from."""
    return hashlib.sha256(SOURCE.read_bytes()).hexdigest()


def page() -> str:
    """The text of `code.py`."""
    parts = []
    for machine in COMPILERS:
        code, entries = compiled(machine)
        lines = "\n".join(f'        "{line}"' for line in textwrap.wrap(code.hex(), 96))
        places = ", ".join(f'"{name}": {entries[name]}' for name in ENTRIES)
        parts.append(f'    "{machine}": (\n        bytes.fromhex(\n{textwrap.indent(lines, "    ")}\n        ),\n'
                     f"        {{{places}}},\n    ),\n")  # fmt: skip
    return (
        '"""Machine code of `observe.c`, and where its functions begin. Made by `make.py`; not to be edited."""\n\n'
        "from __future__ import annotations\n\n"
        f'SOURCE = "{source_digest()}"\n'
        '"""SHA-256 of the source."""\n\n'
        "CODE: dict[str, tuple[bytes, dict[str, int]]] = {\n" + "".join(parts) + "}\n"
    )


def main() -> int:
    """Write `code.py`, or with `--check` only compare its digest with the source."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        return 0 if f'SOURCE = "{source_digest()}"' in TARGET.read_text(encoding="utf-8") else 1
    TARGET.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
