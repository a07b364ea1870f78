"""A verdict in the forms that other programs read: JUnit XML and Markdown."""

from collections.abc import Callable, Mapping, Sequence
from xml.etree import ElementTree

from robustatlas.common.escaping import markdown_code, markdown_text, visible_text
from robustatlas.report.gate.verdict import Check, Decision, overall_sentence


def as_junit(checks: Sequence[Check], run: str) -> str:
    """A suite of one test a check, as Jenkins, GitLab and GitHub's reporters read them.

    >>> "failures=\\"1\\"" in as_junit([Check("clean>=90", Decision.NOT_KEPT, "clean is 80.")], "runs/a")
    True
    """
    failed = [check for check in checks if not check.passed]
    suite = ElementTree.Element(
        "testsuite",
        name=visible_text(f"robustatlas check {run}"),
        tests=str(len(checks)),
        failures=str(len(failed)),
        errors="0",
    )
    for check in checks:
        case = ElementTree.SubElement(suite, "testcase", classname="robustatlas.check", name=visible_text(check.name))
        if not check.passed:
            ElementTree.SubElement(case, "failure", message=visible_text(check.sentence)).text = visible_text(
                check.sentence
            )
        ElementTree.SubElement(case, "system-out").text = visible_text(check.sentence)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)


def as_markdown(checks: Sequence[Check], run: str) -> str:
    """A heading with the verdict, and a table of the checks, as a pull request shows them.

    >>> print(as_markdown([Check("clean>=90", Decision.KEPT, "clean is 95.")], "runs/a").splitlines()[0])
    ## robustatlas check runs/a: Go: the check is kept.
    """
    verdict = overall_sentence(checks)
    rows = [
        f"| {_SIGNS[c.decision]} {c.decision.value} | {markdown_code(c.name)} | {markdown_text(c.sentence)} |"
        for c in checks
    ]
    return "\n".join(
        [
            f"## robustatlas check {markdown_text(run)}: {verdict}",
            "",
            "| | required | found |",
            "| --- | --- | --- |",
            *rows,
            "",
        ]
    )


_SIGNS = {Decision.KEPT: "✅", Decision.NOT_KEPT: "❌", Decision.NOT_DECIDED: "❔"}

FORMATS: Mapping[str, Callable[[Sequence[Check], str], str]] = {
    "junit": as_junit,
    "markdown": as_markdown,
}
"""Name -> what writes a verdict in that form."""
