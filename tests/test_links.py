"""A run whose files or folders are symbolic links: what leads out of it is neither read, nor copied, nor written to."""

import shutil
from pathlib import Path

import pytest
import torch

import robustatlas as ra
from command_line import entered
from helpers_core import digits_images
from robustatlas.outcomes import Run, merge

COMMANDS = {
    "show": ["show", "RUN", "--explain"],
    "report": ["report", "RUN", "-o", "OUT/report.html"],
    "merge": ["merge", "RUN", "-o", "OUT/merged"],
    "export": ["export", "RUN", "-o", "OUT/evidence.json"],
    "card": ["card", "RUN", "-o", "OUT/card.svg"],
    "query": ["query", "SELECT * FROM outcomes", "RUN"],
    "check": ["check", "RUN", "--require", "clean>=0"],
    "best-known": ["best-known", "RUN", "-o", "OUT/best"],
    "leaderboard": ["leaderboard", "build", "RUN", "-o", "OUT/board"],
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with everything that one may have."""
    path = tmp_path_factory.mktemp("whole") / "run"
    torch.manual_seed(0)
    net, data = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10)), digits_images(6)
    settings = {"strengths": {"linf": [0.1, 0.2]}, "effort": "low", "run": path, "progress": False}
    result = ra.evaluate(net, data, "linf", keep_adversarial=True, **settings)
    result.describe({"title": "a title"})
    ra.certify(net, data, "linf", run=path, progress=False)
    ra.audit(path, data, model=net, samples=1)
    kinds = {entry.name for entry in path.iterdir()}
    assert kinds >= {"run.json", "attacks", "plans", "cards", "diagnoses", "outcomes", "samples", "adversarial"}
    assert kinds >= {"certificates", "certified", "audit"}
    return path


def invoke(name: str, run: Path, out: Path) -> tuple[int, str]:
    words = [word.replace("RUN", str(run)).replace("OUT", str(out)) for word in COMMANDS[name]]
    said = entered(*words, code=None)
    return said.code, said.line


def entries(run: Path) -> list[Path]:
    """One of each kind of its files, and all its folders."""
    found = sorted(path for path in run.rglob("*") if "locks" not in path.parts)
    first = {(path.parent, path.suffix): path for path in reversed(found) if path.is_file()}
    return [path for path in found if path.is_dir() or first[path.parent, path.suffix] == path]


@pytest.mark.parametrize("name", ["report", "merge"])
def test_no_link_out_of_a_run_is_followed(name: str, whole: Path, tmp_path: Path) -> None:
    code, told = invoke(name, whole, tmp_path / "sound")
    assert code == 0, told
    for number, entry in enumerate(entries(whole)):
        place = entry.relative_to(whole)
        run, away, out = (tmp_path / f"{kind}{number}" for kind in ("run", "away", "out"))
        shutil.copytree(whole, run)
        shutil.move(run / place, away)
        (run / place).symlink_to(away)
        code, told = invoke(name, run, out)
        read = name != "merge" or place.parts[0] != "audit"  # which is not merged
        read &= not (name != "merge" and place.parts[0] == "adversarial")
        assert (code != 0 and f"{run / place} leads out of" in told) == read, (place, told)
        if not read:
            assert code == 0, (place, told)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_on_a_run_refuses_a_link_out_of_it(name: str, whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    (secret := tmp_path / "secret.json").write_text('{"password": "s3cret"}')
    (run / "cards" / "0.json").symlink_to(secret)
    next((run / "outcomes").glob("*/*.parquet")).unlink()
    (run / "outcomes").rename(tmp_path / "outcomes")
    (run / "outcomes").symlink_to(tmp_path / "outcomes")
    code, told = invoke(name, run, tmp_path / "out")
    assert code != 0 and "leads out of" in told and "s3cret" not in told
    assert not [path for path in (tmp_path / "out").rglob("*.json") if "s3cret" in path.read_text()]


def test_links_within_a_run_and_to_a_run_are_followed(whole: Path, tmp_path: Path) -> None:
    run, there = tmp_path / "run", tmp_path / "there"
    shutil.copytree(whole, there)
    part = next((there / "outcomes").glob("*/*.parquet"))
    part.rename(there / "part")
    part.symlink_to(there / "part")
    run.symlink_to(there)
    for name in COMMANDS:
        code, told = invoke(name, run, tmp_path / name)
        assert code == 0, told
    assert ra.load_result(tmp_path / "merge" / "merged").samples == 6


def test_nothing_is_written_through_a_link(whole: Path, tmp_path: Path) -> None:
    """Also not into the run that others are merged into, nor by a circle of links."""
    (away := tmp_path / "away").mkdir()
    for name in ("samples", "outcomes", "plans", "circle"):
        into, place = tmp_path / name, name.replace("circle", "samples")
        Run.begin(into, Run.open(whole).identity)
        (into / place).symlink_to(away if name != "circle" else into / place)
        with pytest.raises(ra.UserError, match=f"{into}/{place}"):
            merge([whole], into)
    assert not list(away.iterdir())
