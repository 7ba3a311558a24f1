"""A run of the proofs as JUnit XML: one test case an obligation, mutant group and twin, for CI dashboards."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

from poolproof.proofs.results import Report


def write_junit(report: Report, path: Path) -> None:
    """Write the report; `failure` is REFUTED, `error` is UNKNOWN or a control that did not fail as it must."""
    suite = ET.Element("testsuite", name="poolproof prove", time=f"{report.seconds:.3f}")
    failures = errors = 0
    for result in report.obligations:
        case = ET.SubElement(
            suite, "testcase", classname=result.module, name=result.claim, time=f"{result.seconds:.4f}"
        )
        if result.failed:
            refuted = result.grade == "REFUTED"
            failures, errors = failures + refuted, errors + (not refuted)
            ET.SubElement(case, "failure" if refuted else "error", message=f"{result.grade}: {result.note}")
    for control in [*report.twins, *report.mutants]:
        name = f"control: {control.name}"
        case = ET.SubElement(suite, "testcase", classname=f"{control.module}.controls", name=name, time="0")
        if control.failed:
            errors += 1
            ET.SubElement(case, "error", message="not refuted")
    for problem in report.problems:
        errors += 1
        case = ET.SubElement(suite, "testcase", classname="controls", name=problem, time="0")
        ET.SubElement(case, "error", message=problem)
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(failures))
    suite.set("errors", str(errors))
    path.parent.mkdir(parents=True, exist_ok=True)
    ET.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)
