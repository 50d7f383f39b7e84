"""Writes a program `stty` that says how large a terminal is, where there is none: python terminal.py FILE"""

import sys
from pathlib import Path

file = Path(sys.argv[1])
file.write_text("#!/bin/sh\necho 24 80\n", encoding="utf-8")
file.chmod(0o755)
