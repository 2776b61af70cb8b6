"""A what-if as JUnit XML, so that a CI system shows which pods or nodes are the trouble."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from bayplan.inspect.whatif.answer import WhatIf
from bayplan.inspect.whatif.each import EachAnswer


def junit_what_if(found: WhatIf) -> str:
    """One case for each pod that would move, start or be stuck."""
    suite = ET.Element("testsuite", name=f"whatif: {'; '.join(found.changes) or 'nothing'}")
    for move in found.moves:
        ET.SubElement(suite, "testcase", classname=move.owner or "pod", name=move.pod)
    for start in found.starts:
        ET.SubElement(suite, "testcase", classname=start.owner or "pod", name=start.pod)
    failures = 0
    for item in found.stuck:
        case = ET.SubElement(suite, "testcase", classname=item.owner or "pod", name=item.pod)
        if item.source:
            failures += 1
            ET.SubElement(case, "failure", type=item.state, message=item.reason)
        else:
            ET.SubElement(case, "skipped", message=f"new and {item.state}: {item.reason}")
    return _text(suite, failures)


def junit_each(found: EachAnswer) -> str:
    """One case for each node or zone."""
    suite = ET.Element("testsuite", name=f"whatif: each {found.each}")
    for item in found.tries:
        case = ET.SubElement(suite, "testcase", classname=found.each, name=item.name)
        if not item.ok:
            message = f"{item.pending} pending, {item.lost} lost, {item.blocked} blocked"
            failure = ET.SubElement(case, "failure", message=message)
            failure.text = "\n".join(f"{s.pod}: {s.state}: {s.reason}" for s in item.stuck)
    return _text(suite, sum(not item.ok for item in found.tries))


def _text(suite: ET.Element, failures: int) -> str:
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(failures))
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True)
