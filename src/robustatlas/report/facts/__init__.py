"""What can be said of one or several results, once: numbers with their intervals, references chosen, warnings.

The command line, the report and the leaderboard only show it.
"""

from robustatlas.report.facts.attack import best_known
from robustatlas.report.facts.field import Beside, beside_the_field
from robustatlas.report.facts.run import RunFacts, facts_of
from robustatlas.report.numbers.against import chosen_reference, fitting_reference, hold_against
from robustatlas.report.numbers.shared import Shared, what_is_shared
from robustatlas.report.numbers.standings import standings_of

__all__ = [
    "Beside",
    "RunFacts",
    "Shared",
    "beside_the_field",
    "best_known",
    "chosen_reference",
    "facts_of",
    "fitting_reference",
    "hold_against",
    "standings_of",
    "what_is_shared",
]
