"""Results as JUnit XML: a suite a scenario, a case an expectation."""

from __future__ import annotations

from xml.etree import ElementTree

from bayplan.sim.run import Result


def encode(results: list[Result]) -> str:
    """Return the XML of results."""
    root = ElementTree.Element("testsuites")
    for result in results:
        _suite(root, result)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(root: ElementTree.Element, result: Result) -> None:
    cases = [(outcome.text, outcome.seen, outcome.time) for outcome in result.outcomes]
    missed = {f"expected {text}; seen instead: {seen}" for text, seen, _ in cases if seen}
    rest = [text for text in result.failures if text not in missed]
    cases.append(("the scenario ends", "; ".join(rest), result.seconds))
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        name=result.name,
        tests=str(len(cases)),
        failures=str(sum(bool(seen) for _, seen, _ in cases)),
        time=f"{result.seconds:.3f}",
    )
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in (("seed", str(result.seed)), ("hash", result.hash)):
        ElementTree.SubElement(properties, "property", name=name, value=value)
    for text, seen, time in cases:
        case = ElementTree.SubElement(
            suite, "testcase", classname=result.name, name=text, time=f"{time:.3f}"
        )
        if seen:
            failure = ElementTree.SubElement(case, "failure", message=f"seen instead: {seen}")
            failure.text = "\n".join(moment.line() for moment in result.timeline[-50:])
