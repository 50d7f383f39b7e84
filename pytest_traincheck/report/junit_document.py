"""What every JUnit document of ours has in common: suites of the `junit-xml` library in one root element."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping, Sequence

import junit_xml


def suite_element(name: str, cases: Sequence[junit_xml.TestCase], properties: Mapping[str, str]) -> ElementTree.Element:
    """A suite as the xunit2 schema wants it."""
    suite: ElementTree.Element = junit_xml.TestSuite(name, cases, properties=properties).build_xml_doc()
    # An attribute of the library's own that the schema does not know.
    suite.attrib.pop("disabled", None)
    for element in suite.findall("testcase"):
        element.attrib.setdefault("time", "0")
    return suite


def document(suites: Iterable[ElementTree.Element], seconds: float | None = None) -> str:
    """The XML text; `seconds` is what all took together, unless it is the sum of the suites."""
    root = ElementTree.Element("testsuites")
    root.extend(suites)
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    taken = sum(float(suite.get("time", "0")) for suite in root) if seconds is None else seconds
    root.set("time", f"{taken:.4f}")
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"
