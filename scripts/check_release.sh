#!/usr/bin/env bash
# Check the sdist and the wheel in a folder: their metadata, what they hold, and the README's tour in a fresh environment.
#
#     scripts/check_release.sh dist
set -euo pipefail

scripts=$(cd "$(dirname "$0")" && pwd)
dist=$(cd "$1" && pwd)
python=${PYTHON:-python3}
wheel=$(echo "$dist"/*.whl)
sdist=$(echo "$dist"/*.tar.gz)

"${TWINE:-twine}" check --strict "$wheel" "$sdist"

# The lists are read into variables first: `unzip | grep -q` fails where grep ends before unzip does.
in_wheel=$(unzip -l "$wheel")
in_sdist=$(tar tf "$sdist")
for file in py.typed data/digits.npz models/shipped/digits-linf.safetensors report/static/base.css report/templates/report.html \
    metrics/references/data/multirobustbench-cifar10.json metrics/references/data/uar-cifar10.json; do
    grep -q " robustatlas/$file$" <<<"$in_wheel" || { echo "$file is not in the wheel" >&2; exit 1; }
    grep -q "/src/robustatlas/$file$" <<<"$in_sdist" || { echo "$file is not in the sdist" >&2; exit 1; }
done
if unwanted=$(grep -E " (tests|benchmarks|docs|examples|scripts)/|golden|/test_|__pycache__|\.pyc$" <<<"$in_wheel"); then
    printf 'the wheel holds what users do not need:\n%s\n' "$unwanted" >&2
    exit 1
fi

# The tour runs far from the checkout, so that nothing of it can be imported by accident.
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
"$python" -m venv fresh
fresh/bin/python -m pip install --quiet --constraint "$scripts/../constraints.txt" "$wheel"
export PYTHONSAFEPATH=1
unset PYTHONPATH
fresh/bin/python "$scripts/readme_tour.py" "$scripts/../README.md" "$wheel"
fresh/bin/robustatlas leaderboard build runs/a -o board >/dev/null
test -s board/index.html

echo "wheel $(du -k "$wheel" | cut -f1) KiB, sdist $(du -k "$sdist" | cut -f1) KiB: checked, and the README's tour runs"
