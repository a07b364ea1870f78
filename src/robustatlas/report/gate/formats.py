"""A verdict in the forms that other programs read: JUnit XML, SARIF, and Markdown."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from robustatlas.common.version import __version__
from robustatlas.common.wording import counted
from robustatlas.report.gate.verdict import Check


def as_junit(checks: Sequence[Check], run: str) -> str:
    """A suite of one test a check, as Jenkins, GitLab and GitHub's reporters read them.

    >>> "failures=\\"1\\"" in as_junit([Check("clean>=90", False, "clean is 80.")], "runs/a")
    True
    """
    failed = [check for check in checks if not check.passed]
    suite = ElementTree.Element(
        "testsuite", name=f"robustatlas check {run}", tests=str(len(checks)), failures=str(len(failed)), errors="0"
    )
    for check in checks:
        case = ElementTree.SubElement(suite, "testcase", classname="robustatlas.check", name=check.name)
        if not check.passed:
            ElementTree.SubElement(case, "failure", message=check.sentence).text = check.sentence
        ElementTree.SubElement(case, "system-out").text = check.sentence
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)


def as_sarif(checks: Sequence[Check], run: str) -> str:
    """SARIF 2.1.0: one result a failed check, as code scanning reads them.

    >>> json.loads(as_sarif([Check("clean>=90", False, "clean is 80.")], "runs/a"))["version"]
    '2.1.0'
    """
    results = [
        {
            "ruleId": check.name,
            "level": "none" if check.passed else "error",
            "kind": "pass" if check.passed else "fail",
            "message": {"text": check.sentence},
            "locations": [{"physicalLocation": {"artifactLocation": {"uri": Path(run, "run.json").as_posix()}}}],
        }
        for check in checks
    ]
    rules = [{"id": name, "shortDescription": {"text": name}} for name in dict.fromkeys(c.name for c in checks)]
    driver = {"name": "robustatlas", "version": __version__, "rules": rules}
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    return json.dumps(log, indent=1) + "\n"


def as_markdown(checks: Sequence[Check], run: str) -> str:
    """A heading with the verdict, and a table of the checks, as a pull request shows them.

    >>> print(as_markdown([Check("clean>=90", True, "clean is 95.")], "runs/a").splitlines()[0])
    ## robustatlas check runs/a: passed
    """
    failed = sum(not check.passed for check in checks)
    verdict = f"{counted(failed, 'check')} failed" if failed else "passed"
    rows = [f"| {'✅' if c.passed else '❌'} | `{_cell(c.name)}` | {_cell(c.sentence)} |" for c in checks]
    return "\n".join(
        [f"## robustatlas check {run}: {verdict}", "", "| | required | found |", "| --- | --- | --- |", *rows, ""]
    )


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


FORMATS: Mapping[str, Callable[[Sequence[Check], str], str]] = {
    "junit": as_junit,
    "sarif": as_sarif,
    "markdown": as_markdown,
}
"""Name -> what writes a verdict in that form."""
