"""`traincheck schema`: the JSON Schema of the configuration or of results, for editors and for programs."""

from __future__ import annotations

import argparse
import json

from pytest_traincheck.cli.status import Status
from pytest_traincheck.schema import SCHEMAS


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("schema", help="print the JSON Schema of the configuration or of results")
    parser.add_argument("what", choices=sorted(SCHEMAS), help="[tool.traincheck], or what --json writes")
    parser.set_defaults(handle=run)


def run(arguments: argparse.Namespace) -> int:
    print(json.dumps(SCHEMAS[arguments.what](), indent=2))
    return Status.CLEAN
