"""The streams of random numbers of a sample that all of its runs share; those of its runs are numbered from 0 on."""

from __future__ import annotations

TARGET = -2
"""For its random target."""

DRAWS = -3
"""For what a set chooses among draws."""

CLEAN = -4
"""From which a randomised model draws for clean inputs."""

SEARCH, JUDGED = -5, -6
"""From which a randomised model draws in the steps of a run, and to judge what it found."""
