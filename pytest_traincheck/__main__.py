"""`python -m pytest_traincheck` is `traincheck`."""

import sys

from pytest_traincheck.cli import main

sys.exit(main())
