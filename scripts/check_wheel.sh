#!/usr/bin/env bash
# Installs the wheel of a folder into a fresh environment, far from the checkout, and uses what it ships.
#
#     scripts/check_wheel.sh dist
set -euo pipefail

dist=$(cd "$1" && pwd)
constraints=$(cd "$(dirname "$0")/.." && pwd)/constraints.txt
wheel=$(echo "$dist"/*.whl)
sdist=$(echo "$dist"/*.tar.gz)

# What a user needs besides Python files must be in both. Listed once: a list that nobody reads to its end is a failure.
in_wheel=$(unzip -l "$wheel")
in_sdist=$(tar tf "$sdist")
for file in py.typed datasets/digits.npz models/shipped/digits-linf.safetensors report/static/base.css \
    report/templates/report.html references/data/multirobustbench-cifar10.json references/data/uar-cifar10.json; do
    grep -q " robustatlas/$file$" <<<"$in_wheel" || { echo "$file is not in the wheel" >&2; exit 1; }
    grep -q "/src/robustatlas/$file$" <<<"$in_sdist" || { echo "$file is not in the sdist" >&2; exit 1; }
done

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
"${PYTHON:-python3}" -m venv fresh
fresh/bin/python -m pip install --quiet --constraint "$constraints" "$wheel"

export PYTHONSAFEPATH=1
unset PYTHONPATH
version=$(fresh/bin/robustatlas --version)
fresh/bin/python - "$place" "$wheel" <<'PYTHON'
import sys
from importlib.metadata import version
from pathlib import Path

import robustatlas as ra

place, wheel = sys.argv[1:]
assert Path(ra.__file__).is_relative_to(place), f"imported from {ra.__file__}"
assert version("robustatlas") == ra.__version__, (version("robustatlas"), ra.__version__)
assert f"-{ra.__version__}-" in Path(wheel).name, wheel
assert ra.load_reference("multirobustbench-cifar10").defenses
PYTHON
fresh/bin/robustatlas evaluate builtin:digits-linf --data digits --attacks linf --samples 2 --strengths linf=0.1,0.2 --run run >/dev/null
fresh/bin/robustatlas report run -o report.html >/dev/null
fresh/bin/robustatlas leaderboard build run -o board >/dev/null
test -s report.html && test -s board/index.html
echo "$version: wheel $(du -k "$wheel" | cut -f1) KiB, sdist $(du -k "$sdist" | cut -f1) KiB, works away from the checkout"
