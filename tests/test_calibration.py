"""References by both rules, and UAR's calibration against its published example."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import robustatlas as ra
from command_line import entered
from robustatlas.attacks.suites import RANKED
from robustatlas.cli._work import share_here
from robustatlas.common.errors import UserError
from robustatlas.evaluation.workers.share import Share
from robustatlas.metrics.references import Reference, load_reference
from robustatlas.metrics.references.building import ReferenceModel, build_reference
from robustatlas.optimizers.apgd_l1 import APGDL1
from robustatlas.optimizers.frank_wolfe import FrankWolfe
from robustatlas.optimizers.lpa import FastLPA
from robustatlas.optimizers.pgd import PGD
from robustatlas.outcomes.accuracies import AccuracyTable
from robustatlas.report.facts import hold_against
from robustatlas.training import Card, ReferencePlan, Settings, calibrate, load_trained, make_reference, read_card
from robustatlas.training.calibration import match_strengths, with_calibration
from robustatlas.training.references import missing_trainings

# Kang et al. 2019, "Testing Robustness Against Unforeseen Adversaries": ATA in percent on CIFAR-10 of the published
# calibrations (github.com/ddkang/advex-uar), rounded; those of Elastic at 4 and 16 are read off the paper's figure 14.
LINF = {1: 90.95, 2: 87.80, 4: 81.59, 8: 71.34, 16: 46.50, 32: 23.11}
ELASTIC = {0.125: 87.38, 0.25: 81.26, 0.5: 72.09, 1: 58.22, 2: 45.45, 4: 34.0, 8: 27.85, 16: 18.0}
# ImageNet-100, where ATA of Elastic at 1 is not published.
IMAGENET_LINF = {1: 84.6, 2: 82.1, 4: 76.2, 8: 66.9, 16: 40.1, 32: 12.9}
IMAGENET_ELASTIC = {0.25: 85.9, 0.5: 83.2, 2: 78.1, 4: 75.6, 8: 57.0, 16: 22.5}


def test_the_published_calibration_of_elastic() -> None:
    found = calibrate("elastic", AccuracyTable(94.0, {"linf": LINF, "elastic": ELASTIC}))
    assert found.strengths == (0.125, 0.25, 0.5, 1, 2, 8)
    assert found.cost == pytest.approx(38.52)
    assert found.ata == (87.38, 81.26, 72.09, 58.22, 45.45, 27.85)
    assert found.largest == 16
    assert found.smallest is None
    costs = {
        chosen: sum(abs(a - b) for a, b in zip(LINF.values(), (ELASTIC[eps] for eps in chosen), strict=True))
        for chosen in itertools.combinations(ELASTIC, 6)
    }
    order = sorted(costs, key=lambda chosen: costs[chosen])
    assert order[:3] == [(0.125, 0.25, 0.5, 1, 2, 8), (0.125, 0.25, 0.5, 1, 2, 16), (0.125, 0.25, 0.5, 1, 2, 4)]
    assert [costs[chosen] for chosen in order[:3]] == pytest.approx([38.52, 38.89, 44.67])


@pytest.mark.parametrize("unknown", [78.2, 79.5, 81.0])
def test_the_published_calibration_on_imagenet(unknown: float) -> None:
    chosen, cost = match_strengths(
        list(IMAGENET_LINF.values()), dict(sorted((IMAGENET_ELASTIC | {1: unknown}).items()))
    )
    assert chosen == (0.25, 0.5, 2, 4, 8, 16)
    assert cost == pytest.approx(39.50)


def test_matching_is_the_best_assignment() -> None:
    """As the public code: the Hungarian method on all pairs, whatever the order of the accuracies."""
    generator = np.random.default_rng(0)
    for _ in range(20):
        baseline = generator.uniform(0, 100, 6)
        grid = dict(enumerate(generator.uniform(0, 100, 9).tolist(), start=1))
        pairs = np.abs(baseline[:, None] - np.array(list(grid.values()))[None])
        rows, columns = linear_sum_assignment(pairs)
        chosen, cost = match_strengths(baseline.tolist(), grid)
        assert cost == pytest.approx(pairs[rows, columns].sum())
        assert chosen == tuple(sorted(columns + 1))


def test_the_ends_of_a_calibration() -> None:
    table = AccuracyTable(89.0, {"linf": LINF, "elastic": ELASTIC})
    found = calibrate("elastic", table, within=3, below=40)
    assert (found.smallest, found.largest) == (0.125, 4)
    assert calibrate("elastic", table, up_to=4).strengths == (0.125, 0.25, 0.5, 1, 2, 4)
    assert calibrate("elastic", AccuracyTable(float("nan"), dict(table.entries)), clean=80).smallest == 0.25
    assert calibrate("linf", table).cost == 0


def test_what_a_calibration_needs() -> None:
    few = AccuracyTable(90, {"linf": LINF, "elastic": {1: 80, 2: 60}})
    with pytest.raises(UserError, match=r"elastic .*2 strengths"):
        calibrate("elastic", few)
    with pytest.raises(UserError, match=r"'elastic' .*2 strengths"):
        calibrate("linf", few, like="elastic")
    with pytest.raises(UserError, match="no attack 'fog'"):
        calibrate("fog", few)


MODELS = [
    ReferenceModel(None, 0.0, 0, AccuracyTable(95, {})),
    ReferenceModel(None, 0.0, 1, AccuracyTable(93, {})),
    ReferenceModel("p", 1.0, 0, AccuracyTable(90, {"p": {1.0: 60, 2.0: 30}})),
    ReferenceModel("p", 1.0, 1, AccuracyTable(90, {"p": {1.0: 64, 2.0: 34}})),
    ReferenceModel("p", 2.0, 0, AccuracyTable(80, {"p": {1.0: 70, 2.0: 50}})),
]


def test_both_rules() -> None:
    strengths = {"p": [1.0, 2.0]}
    mean = build_reference("r", "", MODELS, strengths, "acc")
    assert mean.accuracies.values("p").tolist() == [62, 50]
    assert mean.clean == 94
    best = build_reference("r", "", MODELS, strengths, "ata")
    assert best.accuracies.values("p").tolist() == [70, 50]
    assert best.clean == 95
    with pytest.raises(UserError, match="No model was trained against p at 2"):
        build_reference("r", "", MODELS[:4], strengths, "acc")
    with pytest.raises(UserError, match="against q"):
        build_reference("r", "", MODELS, {"q": [1.0]}, "ata")


def test_cells_of_networks_that_learned_nothing_are_marked() -> None:
    """By acc the trainings at that strength; by ata an entry that such a network sets. Whoever compares is told."""
    lost = ReferenceModel("p", 2.0, 0, AccuracyTable(12, {"p": {1.0: 12, 2.0: 12}}))
    good = ReferenceModel("p", 1.0, 0, AccuracyTable(90, {"p": {1.0: 60, 2.0: 5}}))
    strengths = {"p": [1.0, 2.0]}
    for rule in ("acc", "ata"):
        found = build_reference("r", "", [MODELS[0], good, lost], strengths, rule, classes=10)
        assert "p at 2" in found.marks[0] and "12" in found.marks[0]
        assert Reference.from_dict(found.to_dict()) == found
    best = ReferenceModel("p", 1.0, 0, AccuracyTable(90, {"p": {1.0: 60, 2.0: 30}}))
    assert build_reference("r", "", [best, lost], strengths, "ata", classes=10).marks == ()
    result = ra.evaluate(
        ra.load_model("builtin:digits-linf"), ra.load_dataset("digits").take(5), ["linf"], strengths={"linf": [0.1]},
        progress=False,
    )  # fmt: skip
    held = hold_against(result, replace(LOST, marks=("Look out.",)))
    assert "Look out." in held.notes()
    assert "Look out." in held.caveats()


LOST = Reference("r", "s", AccuracyTable(90, {"linf": {0.1: 50.0}}), ("linf",))


def test_calibrations_that_are_far_off_are_marked() -> None:
    far = {k + 1: 12.0 - k for k in range(6)}
    source = Reference("r", "s", AccuracyTable(94, {"linf": LINF, "fog": far}), ("linf", "fog"))
    choice = calibrate("fog", source)
    assert choice.is_far
    assert "far off: its best six strengths are" in with_calibration(source, choice).marks[0]
    assert not calibrate("linf", source).is_far


def test_each_attack_is_trained_and_evaluated_as_its_field_does() -> None:
    plan = ReferencePlan("digits-cnn", {"linf": [0.1], "l1": [2.0], "lpips": [0.3], "elastic": [0.5]}, steps=3)
    assert [plan.course(name).recipe for name in plan.strengths] == ["pgd", "pgd", "pat", "pgd"]
    assert type(plan.recipe_against("l1", 2.0).against[0].optimizer) is APGDL1
    assert type(plan.recipe_against("lpips", 0.3).against[0].optimizer) is FastLPA
    assert plan.searched == "descent"
    ata = ReferencePlan("digits-cnn", {"linf": [0.1], "l1": [2.0]}, rule="ata", protocol="paper")
    assert ata.course("l1").recipe == "uniform"
    assert ata.searched == "every"
    (run,) = ata.evaluation_attack("linf").plan("every").runs
    assert (run.optimizer.steps, run.targets, run.judge) == (200, "random", "last")
    with pytest.raises(UserError, match="features= is for the attack lpips"):
        ReferencePlan("digits-cnn", {"linf": [0.1]}, features="alexnet=weights.pth")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rule": "best"}, "no rule 'best'"),
        ({"strengths": {}}, "needs attacks"),
        ({"strengths": {"linff": [0.1]}}, "'linff'"),
        ({"strengths": {"linf": [0.2, 0.1]}}, "increasing"),
        ({"strengths": {"linf": [8.0]}}, "for 8 of 255 give 8/255"),
        ({"seeds": 0}, "at least one run"),
        ({"recipe": "msd"}, "at least two"),
        ({"protocol": "papers"}, "expected default or paper"),
        ({"trained": {"linf": [0.1]}}, "own strengths"),
        ({"rule": "ata", "trained": {"l2": [0.1]}}, "not in the reference"),
    ],
)
def test_wrong_plans(change: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        ReferencePlan(**({"architecture": "digits-cnn", "strengths": {"linf": [0.1]}} | change))  # type: ignore[arg-type]


def test_each_attack_has_the_steps_of_its_own_field() -> None:
    """UAR, section 4: 10 steps in training, 30 for elastic; ours, asked for, count before that."""
    strengths = {"linf": [0.1], "elastic": [0.5]}
    ata = ReferencePlan("digits-cnn", strengths, rule="ata")
    assert [ata.recipe_against(name, 0.1).against[0].optimizer.steps for name in strengths] == [10, 30]
    assert ata.recipe_against("elastic", 0.5).against[0].optimizer.rate == pytest.approx(30**-0.5)
    assert ata.to_record()["per_attack"] == {"elastic": {"steps": 30}}
    every = ReferencePlan("digits-cnn", strengths, rule="ata", steps=7)
    assert [every.course(name).steps for name in strengths] == [7, 7]
    assert "per_attack" not in every.to_record()
    one = ReferencePlan("digits-cnn", strengths, per_attack={
        "all": {"epochs": 5}, "elastic": {"steps": 4, "epochs": 3, "optimizer": "sgd", "recipe": "trades", "beta": 2.0},
        "standard": {"epochs": 9},
    })  # fmt: skip
    assert [one.course(name).settings.epochs for name in (None, "linf", "elastic")] == [9, 5, 3]
    assert (one.course("elastic").settings.optimizer, one.recipe_against("elastic", 0.5).beta) == ("sgd", 2.0)
    assert one.course("linf").steps == 10


@pytest.mark.parametrize("attack", RANKED)
def test_acc_star_of_every_ranked_attack_as_its_field_trains_it(attack: str) -> None:
    """MultiRobustBench, C.2: 100 epochs of 256 images, SGD from .1; 20 steps of epsilon / 18, UAR's / sqrt(20)."""
    plan = ReferencePlan("resnet18", {attack: [0.1]}, presets="multirobustbench", per_attack={"all": {"epochs": 100}})
    way = plan.course(attack)
    settings = way.settings
    assert (settings.epochs, settings.batch_size, settings.learning_rate, settings.schedule) == (
        100,
        256,
        0.1,
        "piecewise",
    )
    (opponent,) = plan.recipe_against(attack, 0.1).against
    assert (opponent.name, opponent.epsilon, opponent.optimizer.steps) == (attack, 0.1, 20)
    assert way.recipe == ("pat" if attack == "lpips" else "pgd")
    share = {"elastic": 20**-0.5, "jpeg-linf": 20**-0.5}.get(attack, 1 / 18)
    if isinstance(opponent.optimizer, PGD):
        assert opponent.optimizer.rate == pytest.approx(share)
    assert type(opponent.optimizer) is {"l1": APGDL1, "jpeg-l1": FrankWolfe, "lpips": FastLPA}.get(attack, PGD)
    assert plan.course(None).settings == settings


def test_the_strengths_of_uar_can_be_trained_against() -> None:
    """On ImageNet-100 they are far beyond those of this catalogue's grids."""
    table = ra.load_reference("uar-imagenet100").accuracies
    strengths = {attack: table.strengths(attack).tolist() for attack in table.attacks}
    plan = ReferencePlan("timm:resnet50", strengths, rule="ata", presets="uar-imagenet100")
    assert len(list(plan.trainings())) == 1 + 10 * 6
    with pytest.raises(UserError, match="its unit is"):
        ReferencePlan("resnet18", {"fog": [9000.0]})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"presets": "trades"}, "There are no presets trades-ATTACK; expected multirobustbench, uar, uar-imagenet100"),
        ({"presets": "uar", "strengths": {"stadv": [0.1]}}, "no preset uar-stadv"),
        ({"presets": "uar", "settings": Settings(epochs=3)}, "have recipe, steps, rate and settings of their own"),
        ({"presets": "uar", "steps": 3}, "have recipe, steps, rate and settings of their own"),
        ({"per_attack": {"l2": {"steps": 3}}}, "per_attack names l2, which is not trained here"),
        ({"per_attack": {"linf": {"stepss": 3}}}, "'pgd' has no setting 'stepss'"),
        ({"per_attack": {"standard": {"epoch": 3}}}, "'standard' has no setting 'epoch'"),
    ],
)
def test_settings_per_attack_that_cannot_be_meant(change: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        ReferencePlan(**({"architecture": "digits-cnn", "strengths": {"linf": [0.1]}} | change))  # type: ignore[arg-type]


GRID = {"pgd-linf": "0.02,0.04,0.06,0.08,0.1,0.15", "pgd-l2": "0.1,0.2,0.3,0.4,0.5,0.6,0.8"}


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two trained networks, and references by both rules in two parts each: everything made by the command line."""
    folder = tmp_path_factory.mktemp("chain")
    small = ["--data", "digits", "--epochs", "3", "--with", "learning_rate=0.01", "--with", "held_out=0"]
    fast = ["--steps", "2", "--samples", "100", "--search", "every"]
    commands = [
        ["train", "digits-cnn", *small, "--out", str(folder / "standard")],
        ["train", "digits-cnn", *small, "--recipe", "max", "--against", "linf=0.1,l2=0.5", "--steps", "3",
         "--out", str(folder / "max")],
    ]  # fmt: skip
    for part in ("1/2", "0/2"):
        commands.append(
            ["reference", "digits-cnn", *small, *fast, "--rule", "ata", "--part", part]
            + [item for name, values in GRID.items() for item in ("--strengths", f"{name}={values}")]
            + ["--trained", "pgd-linf=0.1", "--trained", "pgd-l2=0.5", "--out", str(folder / "ata")]
        )
    commands.append(
        ["reference", "digits-cnn", *small, *fast, "--strengths", "pgd-linf=0.1:2", "--seeds", "2",
         "--out", str(folder / "acc")]
    )  # fmt: skip
    commands.append(
        ["calibrate", "pgd-l2", "--like", "pgd-linf", "--reference", str(folder / "ata/reference.json"),
         "-o", str(folder / "uar.json")]
    )  # fmt: skip
    said = [entered(*command).out for command in commands]
    assert "trainings are missing" in said[2]
    assert "Reference:" in said[3]
    return folder


def test_the_whole_chain(chain: Path) -> None:
    """Train, reference, calibrate, evaluate, rank: metrics of one's own data set."""
    reference, uar, acc = (load_reference(chain / p) for p in ("ata/reference.json", "uar.json", "acc/reference.json"))
    attacks = uar.accuracies.attacks
    assert attacks == ("pgd-linf", "pgd-l2")
    assert len(uar.accuracies.strengths("pgd-l2")) == 6
    assert len(reference.accuracies.strengths("pgd-l2")) == 7
    assert acc.accuracies.attacks == ("pgd-linf",)
    scores = {}
    for name in ("standard", "max"):
        result = ra.evaluate(
            load_trained(chain / name),
            ra.load_dataset("digits"),
            attacks,
            search="every",
            strengths={a: uar.accuracies.strengths(a).tolist() for a in attacks},
            samples=40,
        )
        scores[name] = ra.metrics.mean_uar(result.accuracies(), uar)
        assert 0 < ra.metrics.competitiveness_ratio(result.accuracies(), uar) < 150
    assert scores["max"] > scores["standard"]


def test_show_report_and_leaderboard_take_a_reference_of_our_own(chain: Path, tmp_path: Path) -> None:
    """A network by its folder, evaluated on the command line, against the reference by its path."""
    uar = load_reference(chain / "uar.json")
    run, reference = tmp_path / "run", ["--reference", str(chain / "uar.json")]
    grids = [f"{a}={','.join(map(str, uar.accuracies.strengths(a)))}" for a in uar.accuracies.attacks]
    command = ["evaluate", f"trained:{chain / 'max'}", "--data", "digits", "--attacks", "pgd-linf,pgd-l2",
               "--search", "every", "--samples", "40", "--name", "max", "--run", str(run)]  # fmt: skip
    entered(*command, *(item for each in grids for item in ("--strengths", each)))
    result = ra.load_result(run)
    told = json.loads((run / "run.json").read_text())
    assert told["model"]["weights_sha256"] == read_card(chain / "max").weights_sha256
    said = json.loads(entered("show", run, *reference, "--trained-on", "pgd-linf=0.1,pgd-l2=0.5", "--json").out)
    numbers = said["reference"]["numbers"]
    accuracies = result.accuracies()
    assert numbers["mUAR"]["value"] == pytest.approx(ra.metrics.mean_uar(accuracies, uar))
    assert numbers["CR ind-avg"]["value"] == pytest.approx(ra.metrics.competitiveness_ratio(accuracies, uar))
    assert said["reference"]["name"] == uar.name
    entered("report", run, *reference, "-o", tmp_path / "report.html")
    assert uar.name in (tmp_path / "report.html").read_text()
    entered("leaderboard", "build", run, *reference, "-o", tmp_path / "site")
    assert "pgd-linf" in (tmp_path / "site/index.html").read_text()


def test_a_folder_that_holds_no_training(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="card"):
        ra.load_model(f"trained:{tmp_path}")


def accuracies_in(training: str | Path) -> Path:
    """Return the file of what a training of a reference reached."""
    (found,) = Path(training).glob("accuracies-*.json")
    return found


def test_a_reference_can_be_checked_by_hand(chain: Path) -> None:
    """Each entry of acc* is the mean of the runs trained at that very strength."""
    reference = load_reference(chain / "acc/reference.json")
    for strength in (0.05, 0.1):
        place = chain / f"acc/pgd-linf-{strength:g}-seed"
        runs = [AccuracyTable.from_json(accuracies_in(f"{place}{seed}")).at("pgd-linf", strength) for seed in (0, 1)]
        assert reference.accuracies.at("pgd-linf", strength) == pytest.approx(np.mean(runs))
    card: Card = read_card(chain / "acc/pgd-linf-0.05-seed1")
    assert card.trained_on == {"pgd-linf": 0.05}
    assert card.identity.settings["seed"] == 1
    clean = [json.loads(accuracies_in(chain / f"acc/standard-seed{s}").read_text())["clean"] for s in (0, 1)]
    assert reference.clean == pytest.approx(np.mean(clean))


def test_a_reference_goes_on_and_knows_its_plan(chain: Path) -> None:
    plan = ReferencePlan(
        "digits-cnn", {"pgd-linf": (0.05, 0.1)}, seeds=2, steps=2, samples=100, recipe_settings={}, search="every",
        settings=Settings(epochs=3, learning_rate=0.01, held_out=0),
    )  # fmt: skip
    data = ra.load_dataset("digits", "train")
    before = {path: path.stat().st_mtime_ns for path in chain.glob("acc/*/weights.safetensors")}
    assert len(before) == 6
    found = make_reference(plan, data, ra.load_dataset("digits"), chain / "acc")
    assert found is not None
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert missing_trainings(plan, chain / "acc", len(ra.load_dataset("digits"))) == []
    with pytest.raises(UserError, match="differs in data"):
        make_reference(plan, data.take(500), ra.load_dataset("digits"), chain / "acc")
    for part in ((2, 2), (0, 0)):
        with pytest.raises(UserError, match="expected I/N with I from 0 to N-1"):
            make_reference(plan, data, ra.load_dataset("digits"), chain / "acc", part)


def test_tasks_of_a_slurm_array_take_their_part(monkeypatch: pytest.MonkeyPatch) -> None:
    assert share_here(None) == Share(0, 1)
    assert share_here("2/3") == Share(2, 3)
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    assert share_here(None) == Share(0, 1)
    monkeypatch.setenv("SLURM_ARRAY_TASK_COUNT", "4")
    assert share_here(None) == Share(3, 4)
    assert share_here("0/2") == Share(0, 2)
    monkeypatch.setenv("SLURM_ARRAY_TASK_COUNT", "many")
    with pytest.raises(UserError, match="SLURM_ARRAY_TASK_COUNT='many'"):
        share_here(None)


def test_calibrated_references_keep_their_source() -> None:
    source = Reference(
        "r", "s", AccuracyTable(94, {"linf": LINF, "elastic": ELASTIC}), ("linf", "elastic"), notes=("n",)
    )
    kept = with_calibration(source, calibrate("elastic", source))
    assert kept.accuracies.attacks == ("linf", "elastic")
    assert kept.accuracies.strengths("elastic").tolist() == [0.125, 0.25, 0.5, 1, 2, 8]
    assert kept.notes[0] == "n"
    assert "38.52 points" in kept.notes[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "digit-cnn", "--data", "digits"], "digits-cnn"),
        (["train", "digits-cnn", "--data", "digits", "--recipe", "maxx"], "'max'"),
        (["train", "digits-cnn", "--data", "digits", "--recipe", "pgd", "--against", "linf"], "NAME=STRENGTH"),
        (["train", "digits-cnn", "--data", "digits", "--with", "epochz=3"], "'epochs'"),
        (["reference", "digits-cnn", "--data", "digits", "--strengths", "linf=0.1", "--part", "x"], "I/N"),
    ],
)
def test_mistakes_on_the_command_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    assert message in entered(*arguments, "--out", tmp_path, code=1).line
    assert not list(tmp_path.iterdir())
