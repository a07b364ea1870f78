"""Test the central claims of four papers; ``python docs/_tools/facts.py`` then writes what was measured into the pages.

    python benchmarks/reproductions/run.py [--out DIR] [--board DIR] [--only board]

The tables of the board answer some of them at once; networks on digits and Fashion-MNIST are trained for the others,
three of each, and kept in ``--out``. ``--only board`` leaves the others as they were measured. Writes
``benchmarks/results/reproductions.json``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import on_board
import on_digits
import on_fashion
import torch
from claims import read, table, write

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "reproductions.json"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("reproductions"))
    parser.add_argument("--board", type=Path, default=on_board.BOARD)
    parser.add_argument("--only", choices=["board"], help="measure these again, and keep the others")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.only:
        claims = [claim for claim in read(RESULTS) if not claim.on.startswith(given.only)]
    else:
        claims = [*on_fashion.claims(given.out), *on_digits.claims(given.out)]
    if (given.board / "reference.json").is_file():
        claims = [*on_board.claims(given.board), *claims]
    claims.sort(key=lambda claim: claim.paper)
    write(claims, RESULTS)
    print(table(claims))


if __name__ == "__main__":
    main()
