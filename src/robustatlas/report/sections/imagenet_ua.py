"""The numbers that ImageNet-UA defines, where its attacks were evaluated."""

from collections.abc import Sequence

from robustatlas.report import pages
from robustatlas.report.facts.run import RunFacts
from robustatlas.report.sections import Section
from robustatlas.results.result import Result


def _body(results: Sequence[Result], facts: Sequence[RunFacts]) -> str:
    told = [run for run in facts if run.model_numbers]
    return pages.render("imagenet_ua.html", runs=told) if told else ""


SECTION = Section("imagenet-ua", "ImageNet-UA", _body)
