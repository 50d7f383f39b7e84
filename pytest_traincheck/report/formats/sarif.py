"""SARIF 2.1.0 (OASIS, "Static Analysis Results Interchange Format"), which code hosts show as annotations of lines.

A relation is a rule, an incident an error and a warning a warning, each at its line. A run that failed is no result of
an analysis: it is a notification, and makes the whole unsuccessful.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from pytest_traincheck import __version__
from pytest_traincheck.text import one_line, plural

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_MOST_VARIABLES = 5

_Plain = Mapping[str, Any]


class Sarif:
    """`traincheck check --write sarif=traincheck.sarif`."""

    name = "sarif"

    def render(self, document: _Plain) -> str:
        """One run of a tool, whatever the number of pipelines: hosts take one run for each tool and upload."""
        results = [result for single in document.get("pipelines", [document]) for result in _results(single)]
        rules = list(dict.fromkeys(result["ruleId"] for result in results))
        for result in results:
            result["ruleIndex"] = rules.index(result["ruleId"])
        run = {
            "tool": {
                "driver": {"name": "pytest-traincheck", "version": __version__, "rules": [_rule(n) for n in rules]}
            },
            "invocations": [_invocation(document)],
            "results": results,
        }
        return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _results(single: _Plain) -> Iterator[dict[str, Any]]:
    """The incidents and warnings of one pipeline, the causes first."""
    name = single["pipeline"]
    for incident in single["incidents"]:
        sources = [incident["source"]]
        if incident["diff"] is not None:
            sources.append(incident["diff"]["file"])
        result = _result(incident["relation"], "error", [f"{name}: {incident['title']}", *_facts(incident)])
        yield {
            **result,
            **_locations(sources, single),
            "partialFingerprints": {"traincheckIncident/v1": incident["id"]},
            "properties": {
                "pipeline": name,
                **{key: incident[key] for key in ("kind", "subject", "step", "stage", "ranks", "module", "invariants")},
            },
        }
    for warning in single["warnings"]:
        level = "error" if warning["fails"] else "warning"
        result = _result(f"warning.{warning['kind']}", level, [f"{name}: {warning['title']}"])
        yield {**result, **_locations([warning["source"]], single), "properties": {"pipeline": name}}


def _result(rule: str, level: str, lines: Sequence[str]) -> dict[str, Any]:
    return {"ruleId": rule, "level": level, "message": _message(lines)}


def _facts(incident: _Plain) -> Iterator[str]:
    yield f"golden: {incident['golden']}"
    yield f"candidate: {incident['candidate']}"
    if incident["variables"]:
        shown = ", ".join(incident["variables"][:_MOST_VARIABLES])
        more = len(incident["variables"]) - _MOST_VARIABLES
        yield f"variables: {shown}" + (f" and {more} more" if more > 0 else "")
    if incident["consequences"]:
        yield f"with it: {plural(incident['consequences'], 'consequence')}"


def _message(lines: Sequence[str]) -> dict[str, str]:
    """Plain text (section 3.11): braces are doubled, since one around a number would be a placeholder, and nothing that
    came from a program's names is a link.
    """
    text = "\n".join(one_line(line) for line in lines)
    return {"text": text.replace("{", "{{").replace("}", "}}").replace("](", "] (")}


def _rule(name: str) -> dict[str, Any]:
    kind, _, of = name.partition(".")
    if of:
        text = f"What must not be overlooked about the {one_line(of)} of a check."
    else:
        text = f"Rules of the relation {one_line(kind)} that the golden run obeys."
    return {"id": name, "shortDescription": {"text": text}}


def _invocation(document: _Plain) -> dict[str, Any]:
    notifications = [
        {
            "level": "error",
            "message": _message([f"{error.get('side') or 'check'}: {error['message']}", error["remedy"]]),
        }
        for error in document["errors"]
    ]
    return {"executionSuccessful": not notifications, "toolExecutionNotifications": notifications}


def _locations(sources: Sequence[str], single: _Plain) -> dict[str, Any]:
    """The first of the sources that lies in the repository, or else the script that the pipeline's command names."""
    script = next((word for word in single["candidate"]["command"].split() if word.endswith(".py")), "")
    for source in (*sources, script):
        file, _, line = source.rpartition(":")
        if not line.isdecimal():
            file, line = source, ""
        path = posixpath.normpath(posixpath.join(single["candidate"]["directory"], file))
        if not file or posixpath.isabs(path) or path.split("/")[0] == "..":
            continue
        place: dict[str, Any] = {"artifactLocation": {"uri": quote(path, errors="replace"), "uriBaseId": "%SRCROOT%"}}
        if int(line or 0):
            place["region"] = {"startLine": int(line)}
        return {"locations": [{"physicalLocation": place}]}
    return {}
