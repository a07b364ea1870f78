"""Robustness while a network is trained: the training stays as it is without, bit for bit."""

import os
import random
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from robustatlas.common.errors import RobustnessWarning
from robustatlas.metrics.intervals import Interval
from robustatlas.training.callbacks import Look, watching
from robustatlas.training.callbacks.undisturbed import unwrap
from test_docs import blocks

Looking = Callable[[nn.Module, int], dict[str, float]]
TRAIN = ra.load_dataset("digits", "train").take(192)
SHORT: dict[str, Any] = {"attacks": "pgd-linf", "strengths": {"pgd-linf": [0.05, 0.1]}, "samples": 8, "share": None}

NONE = Interval(0.0, 0.0, 0.0, 0.95)


class Odd(nn.Module):
    """Writes into a buffer in every pass, whatever the mode, and draws random numbers in training."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Dropout(0.3),
            nn.Flatten(),
            nn.Linear(256, 10),
        )
        self.register_buffer("passes", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.passes += 1
        answered: Tensor = self.layers(x)
        return answered


def trained(look: Looking | None, epochs: int = 3) -> tuple[dict[str, Tensor], list[float]]:
    """The weights after a training, and what the random generators draw then."""
    torch.manual_seed(0), random.seed(0), np.random.seed(0)  # noqa: NPY002
    net = Odd()
    frozen = net.layers[0].bias
    frozen.requires_grad_(False)
    net.layers[1].eval()
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], 0.1, momentum=0.9)
    for epoch in range(1, epochs + 1):
        for chosen in torch.randperm(len(TRAIN.labels)).split(64):
            loss = nn.functional.cross_entropy(net(TRAIN.images[chosen]), TRAIN.labels[chosen])
            loss.backward()  # gradients add up over batches: what a look left in them would be seen
            optimizer.step()
        if look is not None:
            look(net, epoch)
    assert frozen.grad is None and not frozen.requires_grad
    assert net.training and not net.layers[1].training
    return net.state_dict(), [float(torch.rand(())), random.random(), np.random.random()]  # noqa: NPY002


def test_a_training_is_the_same_with_and_without(tmp_path: Path) -> None:
    look = ra.callbacks.watch("digits", **SHORT, every=2, folder=tmp_path)
    (alone, drawn), (watched, also) = trained(None, 4), trained(look, 4)
    assert drawn == also
    assert all(torch.equal(alone[name], watched[name]) for name in alone)
    assert [(each.epoch, each.samples) for each in look.looks] == [(2, 8), (4, 8)]
    assert [each.epoch for each in ra.callbacks.read_looks(tmp_path)] == [2, 4]
    last = look.looks[-1]
    assert last.robust["pgd-linf"].low <= last.robust["pgd-linf"].value <= last.clean.value
    again = ra.load_result(last.run).accuracies()
    assert last.robust["pgd-linf"].value == pytest.approx(np.mean(again.values("pgd-linf")))
    path = look.plot()
    assert path is not None and path.stat().st_size > 1000


class Keeping(nn.Module):
    """Keeps, beside what ``state_dict`` has, everything that a module may, and changes it in every pass."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
        self.register_buffer("mean", torch.zeros(10))
        self.last, self.inside, self.passes = torch.zeros(10), torch.zeros(10), 0
        self.history: list[Tensor] = [torch.zeros(10)]
        self.sums: dict[str, Any] = {"mean": torch.zeros(10), "numbers": np.zeros(10)}
        self.own, self.other = torch.Generator().manual_seed(0), random.Random(0)
        self.third, self.fourth = np.random.default_rng(0), (np.random.RandomState(0),)
        self.unregistered = [nn.BatchNorm1d(10)]

    def forward(self, x: Tensor) -> Tensor:
        answered = self.layers(x) + 0.01 * torch.randn(len(x), 10, generator=self.own)
        answered = answered + 0.01 * (self.other.random() + self.third.random() + self.fourth[0].rand())
        seen = answered.detach().mean(0)
        self.mean = 0.9 * self.mean + seen  # another tensor
        self.last = seen
        self.inside += seen
        self.passes += 1
        self.history.append(seen)
        self.history[0] += seen
        self.sums["mean"] += seen
        self.sums["numbers"] += seen.numpy()
        self.sums["late"] = self.passes
        self.unregistered[0](answered.detach().repeat(2, 1))
        return answered + 0.01 * (self.mean + self.last + self.inside / self.passes + len(self.history))

    def held(self) -> list[Any]:
        tensors = [self.mean, self.last, self.inside, *self.history, self.sums["mean"], *self.parameters()]
        tensors += [torch.tensor(self.sums["numbers"]), *self.unregistered[0].buffers()]
        drawn = torch.rand(1, generator=self.own).item(), self.other.random(), self.third.random()
        told = [self.passes, self.sums["late"], len(self.history), *drawn, self.fourth[0].rand()]
        return [*(tensor.tolist() for tensor in tensors), *told]


class HoldingAResult(Keeping):
    """Which torch does not copy."""

    def forward(self, x: Tensor) -> Tensor:
        self.result = super().forward(x)
        return self.result


class OneOfItsKind(Keeping):
    def __deepcopy__(self, memo: Any) -> nn.Module:
        return self


class Refusing(Keeping):
    def __deepcopy__(self, memo: Any) -> nn.Module:
        raise MemoryError("too large")


def kept_by(net: Keeping, look: Callable[[Any, int], Any]) -> list[Any]:
    """What a network holds after two epochs."""
    torch.manual_seed(0)
    net.layers[1].reset_parameters()
    optimizer = torch.optim.SGD(net.layers.parameters(), 0.1)
    for epoch in (1, 2):
        for chosen in torch.arange(128).split(32):
            nn.functional.cross_entropy(net(TRAIN.images[chosen]), TRAIN.labels[chosen]).backward()
            optimizer.step()
        look(net, epoch)
    return net.held()


@pytest.mark.parametrize("kind", [Keeping, HoldingAResult, OneOfItsKind, Refusing])
def test_whatever_a_network_keeps_is_as_without(kind: type[Keeping], tmp_path: Path) -> None:
    alone = kept_by(kind(), lambda net, epoch: None)
    look = ra.callbacks.watch("digits", **SHORT, folder=tmp_path)
    with pytest.warns(RobustnessWarning) as said:
        watched = kept_by(kind(), look)
    assert watched == alone
    assert len(look.looks) == 2
    told = [str(each.message) for each in said if "cannot be copied" in str(each.message)]
    assert len(told) == (kind is not Keeping)
    assert all(f"({kind.__name__}) cannot be copied" in sentence for sentence in told)


def test_what_stands_behind_an_object_is_as_without(tmp_path: Path) -> None:
    """Where no network is given but something that has one."""
    alone = kept_by(Keeping(), lambda net, epoch: None)
    for number, model in enumerate((lambda pair: pair[0], lambda pair: ra.Classifier(pair[0]))):
        look = ra.callbacks.watch("digits", **SHORT, folder=tmp_path / f"{number}", model=model)
        assert kept_by(Keeping(), lambda net, epoch, look=look: look((net, "an optimizer"), epoch)) == alone
        assert len(look.looks) == 2


def test_a_look_is_at_the_network_as_it_is_then(tmp_path: Path) -> None:
    """Not at one that was copied before."""
    look = ra.callbacks.watch("digits", **SHORT, folder=tmp_path)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    for epoch, biased in ((1, 3), (2, 7)):
        with torch.no_grad():
            net[1].weight.zero_()
            net[1].bias.copy_(torch.eye(10)[biased])
        look(net, epoch)
    data = ra.load_dataset("digits")
    assert [each.clean.value for each in look.looks] == [
        100 * float((data.labels[:8] == biased).float().mean()) for biased in (3, 7)
    ]


@pytest.mark.filterwarnings("error")
def test_a_watch_never_raises(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not where warnings end programs, and not by what it is given in a training or finds at its end."""
    (tmp_path / "file").write_text("")
    look = ra.callbacks.watch("digits", **SHORT, folder=tmp_path / "looks")
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    for wrong in ((net, "first"), (net, None), (None, 1), (nn.Linear(3, 2), 1), ("net", 2)):
        assert look(*wrong) == {}
    assert look.plot() is None
    assert "after epoch first failed" in capsys.readouterr().err
    assert look(net, 3)
    assert look.plot(tmp_path / "file" / "picture.png") is None
    assert "could not be drawn" in capsys.readouterr().err
    inside_a_file = ra.callbacks.watch("digits", **SHORT, folder=tmp_path / "file")
    assert inside_a_file(net, 1) == {} and inside_a_file.plot() is None


def test_a_look_that_fails_ends_no_training(tmp_path: Path) -> None:
    def broken(net: nn.Module) -> nn.Module:
        raise RuntimeError("no such layer")

    look = ra.callbacks.watch("digits", **SHORT, folder=tmp_path, model=broken)
    with pytest.warns(match="epoch 1 .*no such layer"):
        assert trained(look, 1)[1] == trained(None, 1)[1]


def test_looks_take_no_more_than_their_share_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that an epoch moves by 100 and an image by 1: 8 images of a look make 8 % of an epoch."""
    now = [0.0]
    monkeypatch.setattr(watching.time, "perf_counter", lambda: now[0])

    def asked(model: Any, data: Any, *, samples: int, **given: Any) -> ra.Result:
        now[0] += samples
        return ra.Result.from_arrays([0] * samples, [0] * samples, {"linf": [0.1] * samples}, {"linf": [0.2]})

    monkeypatch.setattr(watching, "evaluate", asked)
    monkeypatch.setattr(watching.Look, "from_result", lambda result, epoch, run: Look(epoch, 8, NONE, {}, run))
    net = nn.Linear(2, 2)
    for share, expected in ((None, [1, 2, 3, 4, 5, 6]), (0.08, [1, 2, 3, 4, 5, 6]), (0.04, [1, 4, 6]), (0.001, [1])):
        look = ra.callbacks.watch("digits", "linf", samples=8, share=share, folder=tmp_path)
        for epoch in range(1, 7):
            now[0] += 100
            look(net, epoch)
        assert [each.epoch for each in look.looks] == expected, share


def test_what_wraps_a_network_is_taken_off() -> None:
    net, compiled = nn.Linear(2, 2), nn.Module()
    compiled._orig_mod = net  # as torch.compile leaves it
    assert unwrap(nn.DataParallel(compiled)) is net

    class FullyShardedDataParallel(nn.Module):
        pass

    with pytest.raises(ra.UserError, match="spread over the processes"):
        unwrap(nn.Sequential(FullyShardedDataParallel()))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"attacks": "linff"}, "did you mean"),
        ({"every": 0}, "every=0"),
        ({"samples": "many"}, "samples='many'"),
        ({"share": 2}, "share=2"),
        ({"data": "digts"}, "did you mean 'digits'"),
    ],
)
def test_what_cannot_be_gets_one_sentence_before_the_training(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ra.UserError, match=said):
        ra.callbacks.watch(**{"data": "digits", "attacks": "linf"} | change)


def test_nothing_to_show_gets_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ra.UserError, match="holds no run of a callback"):
        ra.callbacks.read_looks(tmp_path)
    with pytest.raises(ra.UserError, match="no look"):
        ra.callbacks.plot_looks([])
    with pytest.warns(match="No look at the network fitted"):
        assert ra.callbacks.watch("digits", "linf", folder=tmp_path).plot() is None


def test_trainings_that_name_no_folder_do_not_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    looks = [ra.callbacks.watch("digits", **SHORT, every=2) for _ in range(2)]
    assert not list(tmp_path.iterdir()), "nothing is made before the first look"
    for look in looks:
        trained(look, 2)
    assert [str(look.folder) for look in looks] == ["robustness", "robustness-2"]
    assert [[each.epoch for each in ra.callbacks.read_looks(look.folder)] for look in looks] == [[2], [2]]
    again = ra.callbacks.watch("digits", **SHORT, every=2, folder="robustness")
    trained(again, 4)
    assert [each.epoch for each in ra.callbacks.read_looks("robustness")] == [2, 4], "a training that goes on"


def test_the_page_says_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"train_one_epoch": lambda net: None, "log": lambda numbers: None}
    names["net"] = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    (block,) = (block for block in blocks("training.md") if "callbacks.watch" in block)
    exec(compile(block.replace("every=2", "every=4, samples=8"), "training.md", "exec"), names)
    assert (tmp_path / "robustness" / "robustness.png").is_file()


DISTRIBUTED = """
    import sys
    import torch
    import torch.distributed as dist
    from torch import nn
    import robustatlas as ra

    def trained(look):
        torch.manual_seed(dist.get_rank())
        data = ra.load_dataset("digits", "train").take(64)
        net = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.BatchNorm1d(10)))
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        for epoch in (1, 2):
            nn.functional.cross_entropy(net(data.images[rank::2]), data.labels[rank::2]).backward()
            optimizer.step()
            assert bool(look(net, epoch)) == (rank == 0 and look is watched)
        return [*net.module.state_dict().values(), torch.rand(3)]

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    settings = {"strengths": {"pgd-linf": [0.1]}, "samples": 8, "share": None, "folder": sys.argv[1]}
    watched = ra.callbacks.watch("digits", "pgd-linf", **settings)
    alone, looking = trained(lambda net, epoch: {}), trained(watched)
    assert all(torch.equal(one, other) for one, other in zip(alone, looking, strict=True))
    dist.barrier()
    dist.destroy_process_group()
"""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no processes")
def test_of_several_processes_one_looks_and_none_waits(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(DISTRIBUTED), encoding="utf-8")
    port = f"{20000 + os.getpid() % 20000}"
    started = []
    for rank in range(2):
        place = {"RANK": f"{rank}", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        command = [sys.executable, str(script), str(tmp_path / "looks")]
        surroundings = os.environ | place | {"OMP_NUM_THREADS": "1"}
        started.append(subprocess.Popen(command, env=surroundings, stderr=subprocess.PIPE, text=True))
    for process in started:
        _, said = process.communicate(timeout=400)
        assert process.returncode == 0, said
    assert len(list((tmp_path / "looks").glob("epoch-*"))) == 2


def test_lightning(tmp_path: Path) -> None:
    pl = pytest.importorskip("lightning.pytorch")

    class Module(pl.LightningModule):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = Odd()

        def forward(self, x: Tensor) -> Tensor:
            answered: Tensor = self.net(x)
            return answered

        def training_step(self, batch: Any, number: int) -> Tensor:
            return nn.functional.cross_entropy(self(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), 0.1)

    def fitted(callbacks: list[Any]) -> tuple[dict[str, Tensor], Any]:
        torch.manual_seed(0)
        module = Module()
        batches = torch.utils.data.TensorDataset(TRAIN.images, TRAIN.labels)
        quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
        logger = pl.loggers.CSVLogger(tmp_path)
        trainer = pl.Trainer(max_epochs=2, accelerator="cpu", callbacks=callbacks, logger=logger, **quiet)
        trainer.fit(module, torch.utils.data.DataLoader(batches, 64, shuffle=True))
        return module.state_dict(), trainer

    callback = ra.callbacks.Lightning("digits", **SHORT, folder=tmp_path / "looks")
    (alone, _), (watched, trainer) = fitted([]), fitted([callback])
    assert all(torch.equal(alone[name], watched[name]) for name in alone)
    assert [look.epoch for look in callback.watch.looks] == [1, 2]
    logged = trainer.callback_metrics["robustness/pgd-linf"]
    assert float(logged) == pytest.approx(callback.watch.looks[-1].robust["pgd-linf"].value)
    tables = [table.read_text() for table in tmp_path.glob("**/metrics.csv")]
    assert any("robustness/pgd-linf_low" in table for table in tables)
    assert (tmp_path / "looks" / "robustness.png").is_file()


def test_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")

    def fitted(watched: bool) -> tuple[dict[str, Tensor], Any]:
        torch.manual_seed(0)
        config = transformers.ViTConfig(
            image_size=8, patch_size=4, num_channels=1, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
            num_attention_heads=2, num_labels=10,
        )  # fmt: skip
        net = transformers.ViTForImageClassification(config)
        rows = [{"pixel_values": x, "labels": int(y)} for x, y in zip(TRAIN.images, TRAIN.labels, strict=True)]
        how = {"report_to": "none", "save_strategy": "no", "use_cpu": True, "disable_tqdm": True, "logging_steps": 1000}
        made = transformers.TrainingArguments(str(tmp_path / "out"), num_train_epochs=2, seed=0, **how)
        trainer = transformers.Trainer(net, made, train_dataset=rows)
        if watched:
            trainer.add_callback(ra.callbacks.Transformers(trainer, "digits", **SHORT, folder=tmp_path / "looks"))
        trainer.train()
        return net.state_dict(), trainer

    (alone, _), (watched, trainer) = fitted(False), fitted(True)
    assert all(torch.equal(alone[name], watched[name]) for name in alone)
    logged = [row for row in trainer.state.log_history if "robustness/pgd-linf" in row]
    assert [row["epoch"] for row in logged] == [1.0, 2.0]
    assert (tmp_path / "looks" / "robustness.png").is_file()


@pytest.mark.parametrize("name", ["Lightning", "Transformers"])
def test_a_package_that_is_missing_gets_one_sentence(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("lightning", "transformers"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "pytorch_lightning", raising=False)
    with pytest.raises(ra.UserError, match=rf"robustatlas\[{name.lower()}\]"):
        getattr(ra.callbacks, name)(*["digits"] * (1 + (name == "Transformers")))
