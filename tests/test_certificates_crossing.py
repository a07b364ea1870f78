"""Certificates are tried out before they are written: what is misclassified within a certified size ends the work."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from robustatlas.attacks.catalogue import attack_named
from robustatlas.attacks.definition import Attack
from robustatlas.certificates import Certificate, Samples, Subject, certificate_named
from robustatlas.certificates.balls import IntervalBounds
from robustatlas.certificates.certify import recheck
from robustatlas.certificates.crossing import crossing
from robustatlas.certificates.linear import Linear
from robustatlas.common.errors import RobustnessWarning
from robustatlas.outcomes import Run
from robustatlas.threats.color import Line


@dataclass(frozen=True)
class _Bold(Certificate):
    """The distance of linear networks, times a factor from some sample of the data set on."""

    name: ClassVar[str] = "bold"

    factor: float = 1.0
    since: int = 0

    def supports(self, attack: Attack) -> bool:
        return True

    def sizes(self, subject: Subject, attack: Attack, samples: Samples) -> Tensor:
        known = certificate_named("line") if isinstance(attack.threat, Line) else Linear()
        sizes = known.sizes(subject, attack, samples)
        further = sizes + 1 if attack.name == "l0" and self.factor > 1 else sizes * self.factor
        return torch.where(samples.index >= self.since, further, sizes)


class _BoldOfAnother(_Bold):
    own_model: ClassVar[bool] = False

    @property
    def certifies(self) -> str:
        return "another"


def _linear() -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(48, 3))
    x = 0.3 + 0.4 * torch.rand(12, 3, 4, 4)
    return net, x, net(x).argmax(1)


@pytest.mark.parametrize("name", ["linf", "l2", "l1", "l0", "brightness", "contrast", "saturation", "hue"])
def test_what_lies_beyond_the_distance_is_found_and_nothing_before(name: str) -> None:
    net, x, y = _linear()
    attack, samples = attack_named(name), Samples(x.double(), y, torch.arange(12))
    subject = Subject(ra.Classifier(net), (3, 4, 4))
    right, wrong = (_Bold(factor).sizes(subject, attack, samples) for factor in (1.0, 1.05))
    reached = right <= (attack.strengths[-1] if isinstance(attack.threat, Line) else torch.inf)
    assert not crossing(subject.model, attack, samples, right, 0).isfinite().any()
    found = crossing(subject.model, attack, samples, wrong, 0)
    assert found[reached].isfinite().all()
    assert reached.any() or name == "hue"
    assert (found[reached] > right[reached]).all()
    assert (found[reached] <= wrong[reached]).all()


def test_a_crossing_is_an_error_and_nothing_is_left_of_the_certificate(tmp_path: Path) -> None:
    net, x, y = _linear()
    said = r"of sample 7 an example under 'linf' has the size .*bold certifies that none is below .*One of the two is"
    given = {"run": tmp_path, "progress": False, "shard_size": 2}
    ra.certify(net, (x, y), "l1", **given)
    with pytest.raises(ra.UserError, match=said):
        ra.certify(net, (x, y), ["l2", "linf"], method={"linf": _Bold(1.1, since=7)}, **given)
    assert {record.name for record in Run.open(tmp_path).certificates.records()} == {"l1"}
    assert {path.parent.name.partition("-")[0] for path in (tmp_path / "certified").rglob("*.parquet")} == {"l1"}
    assert list(ra.load_result(tmp_path).certified_sizes) == ["l1"]
    ra.certify(net, (x, y), "linf", method=_Bold(1.0), **given)
    assert set(ra.load_result(tmp_path).certified_sizes) == {"l1", "linf"}


@pytest.mark.usefixtures("watched")
def test_a_crossing_in_another_process_is_the_same_error(tmp_path: Path) -> None:
    net, x, y = _linear()
    bold = _Bold(1.1)
    with pytest.raises(ra.UserError, match=r"bold certifies that none is below .*One of the two is wrong"):
        ra.certify(net, (x, y), "l2", method=bold, run=tmp_path, workers=2, progress=False)
    assert not Run.open(tmp_path).certificates.records()


def test_a_certificate_of_another_model_is_not_tried_out() -> None:
    net, x, y = _linear()
    result = ra.certify(net, (x, y), "l2", method=_BoldOfAnother(3.0), progress=False)
    assert (result.certified_sizes["l2 (another)"].sizes > 0).all()


def test_sizes_that_an_example_refutes_do_not_hold_when_they_are_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, data = ra.load_model("builtin:digits-standard"), ra.load_dataset("digits")
    ra.certify(model, data, "linf", effort="low", samples=3, run=tmp_path, progress=False)
    store = Run.open(tmp_path)
    (record,) = store.certificates.records()
    wrong = record.model_copy(update={"settings": record.settings | {"version": 9}})
    index = np.arange(3)
    store.certificates.add(wrong)
    columns = {
        "index": index,
        "certified_size": np.full(3, 0.8),
        "seconds": np.zeros(3),
        "abstained": np.zeros(3, np.int8),
    }
    store.certificates.write(wrong, columns, store.clean(index))
    monkeypatch.setattr(IntervalBounds, "holds", lambda self, subject, attack, samples, sizes: sizes > 0)
    assert sorted(each.failed.tolist() for each in recheck(tmp_path, model=model, data=data)) == [[], [0, 1, 2]]


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:50])


def _no_text(file: Path) -> None:
    file.write_bytes(b"\xff\xfe\x00" * 9)


@pytest.mark.parametrize("damage", [_cut, _no_text])
@pytest.mark.parametrize("what", ["certificates/linf-*.json", "certified/linf-*/*.parquet"])
def test_what_is_whole_is_shown_beside_a_damaged_certificate(tmp_path: Path, what: str, damage: object) -> None:
    assert callable(damage)
    net, x, y = _linear()
    whole = ra.certify(net, (x, y), ["linf", "l2"], run=tmp_path, progress=False)
    (file,) = tmp_path.glob(what)
    damage(file)
    with pytest.warns(RobustnessWarning, match="A damaged (certificate|part) counts as not done"):
        left = ra.load_result(tmp_path)
    assert list(left.certified_sizes) == ["l2"]
    np.testing.assert_array_equal(left.certified_size("l2"), whole.certified_size("l2"))
