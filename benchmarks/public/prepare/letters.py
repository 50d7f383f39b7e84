"""Writes a made-up text in which every letter of English and a few signs occur: python letters.py FILE"""

import sys
from pathlib import Path

from text import text

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ abcdefghijklmnopqrstuvwxyz, O God! the end."

Path(sys.argv[1]).write_text((text(60) + ALPHABET + "\n") * 2, encoding="utf-8")
