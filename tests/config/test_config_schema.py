"""The schema of the configuration says what the reader says, and the files in docs/schema are what the code makes."""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from test_config_load import FULL, MISTAKES

from pytest_traincheck.cli import main
from pytest_traincheck.config import load_text
from pytest_traincheck.schema import SCHEMAS
from pytest_traincheck.schema.configuration import configuration_schema

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
VALIDATOR = jsonschema.Draft7Validator(configuration_schema(), format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER)
FOR_THE_READER = {
    "pipelines.a.cwd": "cwd = 'a/../../b'",
    "pipelines.a.timeout": "timeout = nan",
    "python": "~nobody",
}
"""Mistakes that no schema can express: key -> a piece of the text."""


def as_an_editor(value: Any) -> Any:
    """TOML as it is given to a schema, where there are no dates."""
    if isinstance(value, dict):
        return {key: as_an_editor(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_an_editor(item) for item in value]
    return value.isoformat() if isinstance(value, datetime.date) else value


def mistakes(text: str) -> list[str]:
    return [error.message for error in VALIDATOR.iter_errors(as_an_editor(tomllib.loads(text)))]


def table(path: Path) -> dict[str, Any]:
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    return content.get("tool", {}).get("traincheck", {}) if path.name == "pyproject.toml" else content


def test_the_schemas_are_schemas() -> None:
    for schema in SCHEMAS.values():
        jsonschema.Draft7Validator.check_schema(schema())


@pytest.mark.parametrize("what", sorted(SCHEMAS))
def test_the_committed_file_is_what_the_code_makes(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", what]) == 0
    file = ROOT / "docs" / "schema" / f"{what}.json"
    written = file.read_text(encoding="utf-8")
    assert capsys.readouterr().out == written, f"run: traincheck schema {what} > {file.relative_to(ROOT)}"


def test_a_full_file_and_those_of_this_repository_are_valid() -> None:
    full = tomllib.loads(FULL)["tool"]["traincheck"]
    files = [*ROOT.glob("traincheck.toml"), *(ROOT / "fixtures").rglob("traincheck.toml")]
    files += [path for path in (ROOT / "fixtures").rglob("pyproject.toml") if "[tool.traincheck" in path.read_text()]
    for content in (full, *map(table, files)):
        assert [error.message for error in VALIDATOR.iter_errors(as_an_editor(content))] == []
    assert files


@pytest.mark.parametrize(("text", "key"), [(text, key) for text, key, _ in MISTAKES])
def test_what_the_reader_refuses_an_editor_underlines(text: str, key: str) -> None:
    assert (mistakes(text) == []) == (key in FOR_THE_READER and FOR_THE_READER[key] in text)


@pytest.mark.parametrize(
    "text",
    [
        "[pipelines.a]\nrun = 'x'\nseed_by = 'probe'\nsteps = 8\nlink = ['data']\nalone = true\n",
        "golden = 'merge-base:main'\njobs = 3\n",
        "golden = 'feature/x-1'\nstore = 'a/b'\n[policy]\nBand = 'off'\n",
        "[audit]\npacks = ['house.jsonl']\nsteps = 20\n"
        "[[audit.allow]]\nlaw = 'zero-grad'\nreason = 'r'\nexpires = 2027-01-31\npaths = ['*.py']\n",
        "[[accept]]\ninvariant = 'x'\nowner = 'o'\nreason = 'r'\nexpires = '2027-01-31'\nvalue = '1'\n",
    ],
)
def test_what_the_reader_takes_is_valid(text: str) -> None:
    load_text(Path("traincheck.toml"), text)
    assert mistakes(text) == []


@pytest.mark.parametrize(
    "text", ["[audit]\nstep = 8\n", "[[audit.allow]]\nlaw = 'x'\n", "[audit]\nallow = 3\n", "[audit]\nsteps = 0\n"]
)
def test_mistakes_in_audits(text: str) -> None:
    with pytest.raises(ValueError, match="audit"):
        load_text(Path("traincheck.toml"), text)
    assert mistakes(text)


def test_every_key_is_explained() -> None:
    def tables(schema: dict[str, Any]) -> list[dict[str, Any]]:
        inner = [item for item in schema.get("properties", {}).values() if "properties" in item]
        return [schema, *(found for item in inner for found in tables(item))]

    schema = configuration_schema()
    for part in [*tables(schema), *schema["definitions"].values()]:
        for key, item in part["properties"].items():
            assert item["description"], key
    json.dumps(schema)
