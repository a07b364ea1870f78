"""Facts on one or several results, said once: numbers with their intervals, references, warnings.

The command line, the report and the leaderboard only show it.
"""

from robustatlas.report.facts.attack import best_known
from robustatlas.report.facts.field import Beside, field_places
from robustatlas.report.facts.run import RunFacts, facts_of
from robustatlas.report.numbers.against import choose_reference, fitting_reference, hold_against
from robustatlas.report.numbers.shared import Shared, shared_of_runs
from robustatlas.report.numbers.standings import standings_of

__all__ = [
    "Beside",
    "RunFacts",
    "Shared",
    "best_known",
    "choose_reference",
    "facts_of",
    "field_places",
    "fitting_reference",
    "hold_against",
    "shared_of_runs",
    "standings_of",
]
