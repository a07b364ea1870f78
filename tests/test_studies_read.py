"""Studies read: each mistake is a sentence that names its key, sizes change entries, parts share the steps."""

from pathlib import Path

import pytest

from command_line import entered
from robustatlas.attacks.definition import Attack
from robustatlas.common.errors import UserError
from robustatlas.evaluation.workers.share import Share
from robustatlas.studies import OUTPUTS, read_study, shipped_studies, study_differences, study_steps
from robustatlas.studies.forecast import trial_images
from robustatlas.studies.numbers import Sheet
from robustatlas.studies.planning import evaluation_request, reference_plan, select_steps, steps_of_share
from robustatlas.training.references import ReferencePlan
from study_files import SMALL, without_sizes, written

MISTAKES = [
    (("seeds = 2", "seedss = 2"), "models.plain.seedss of study mine is not known; a misspelt entry?"),
    (("samples = 12", 'samples = "many"'), "data.digits.samples of study mine: input should be a valid integer"),
    (("samples = 12", "samples = 0"), "data.digits.samples of study mine: input should be greater than or equal to 1"),
    (("seeds = [3, 4]", "seeds = []"), r"models.linf.seeds of study mine: \[\]; expected how many trainings"),
    (("seeds = [3, 4]", ""), "outputs.tests of study mine compares groups of trainings, and models.linf has one"),
    (
        ("against = { linf = 0.1 }", "against = { linf = -1 }"),
        "models.linf.against.linf of study mine: -1 is not a strength",
    ),
    (('"0.2:2"', '"0.2:x"'), "evaluations.main.strengths.linf of study mine: '0.2:x' is not understood"),
    (
        ("seeds = [3, 4]", "seeds = [3, 4]\noptions = { warmpu = 1.0 }"),
        "models.linf: The recipe 'pgd' has no setting 'warmpu'; did you mean 'warmup'?",
    ),
    (("against = { linf = 0.1 }", "against = { lnif = 0.1 }"), "models.linf: .*'lnif'.*did you mean 'linf'"),
    (('recipe = "pgd"', 'recipe = "pdg"'), "models.linf: There is no recipe 'pdg'; did you mean 'pgd'?"),
    (('recipe = "pgd"', 'preset = "tradez"'), "models.linf: There is no preset 'tradez'; did you mean 'trades'?"),
    (
        ("epochs = 1,", "epoch = 1,"),
        "models.plain.settings: 'epoch' is not a setting of the trainer; did you mean 'epochs'?",
    ),
    (("steps = 1", 'steps = 1\nstart = "plane"'), "models.linf.start names 'plane'; did you mean 'plain'?"),
    (
        ("steps = 1\nseeds = [3, 4]", 'steps = 1\nstart = "plain"\n[models.plain2]\nstart = "plain2"'),
        "models of study mine wait for each other in a circle: plain2 -> plain2",
    ),
    (('of = "plain"', 'of = "plane"'), "models.bits.of names 'plane'; did you mean 'plain'?"),
    (('defense = "bits=3"', 'defense = "bitz=3"'), "models.bits.defense: 'bitz=3' is not a transformation"),
    (
        ('attacks = ["linf"]', 'attacks = ["lnif"]'),
        "evaluations.main.attacks of study mine: .*'lnif'.*did you mean 'linf'",
    ),
    (
        ('kind = "scores"', 'kind = "score"'),
        "outputs.scores.kind of study mine: There is no output 'score'; did you mean",
    ),
    (('kind = "scores"', ""), "outputs.scores of study mine has no kind; there are scores, "),
    (('numbers = ["clean", "linf@0.1", "average"]', "numbers = []"), "outputs.scores of study mine"),
    (('numbers = ["clean", "linf@0.1", "average"]', ""), "numbers of outputs.scores of study mine is missing"),
    (
        ('models = ["linf"]', 'models = ["lnif"]'),
        "outputs.tests of study mine: models names 'lnif'; did you mean 'linf'?",
    ),
    (("samples = 12", "samples = = 12"), "study mine is not TOML"),
    (("[data.digits]", "[date.digits]\n[data.digits]"), "date of study mine is not known"),
    (("[models.bits]", "[models]\nbits = 3\n[other]"), "is not TOML|models.bits of study mine is 3; expected a table"),
]


@pytest.mark.parametrize(("change", "sentence"), MISTAKES, ids=[sentence[:40] for _, sentence in MISTAKES])
def test_each_mistake_is_one_sentence_that_names_the_key(
    change: tuple[str, str], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=sentence) as raised:
        read_study(written(tmp_path, without_sizes(SMALL), change))
    assert "\n" not in str(raised.value)


def test_sizes_give_keys_anew_and_leave_entries_out(tmp_path: Path) -> None:
    file = written(tmp_path)
    study = read_study(file, "other")
    assert study.evaluations["main"].strengths == {"linf": (0.1, 0.2, 0.3)}
    assert study.evaluations["main"].effort == "low" and "bits" not in study.models
    assert study.size == "other" and study.differs == ["one more strength"]
    with pytest.raises(UserError, match=r"'othr'.*'other'"):
        read_study(file, "othr")
    with pytest.raises(UserError, match=r"'small'.*other"):
        read_study(file)
    with pytest.raises(UserError, match=r"size.other.without .*'models.bitz'"):
        read_study(written(tmp_path, SMALL, ('models.bits"]', 'models.bitz"]')), "other")
    with pytest.raises(UserError, match=r"'uhr'.*'uar'"):
        read_study("uhr")


def test_parts_share_all_steps_and_none_waits_for_another(tmp_path: Path) -> None:
    steps = study_steps(read_study(written(tmp_path, without_sizes(SMALL))))
    parts = [{step.name for step in steps_of_share(steps, Share(number, 3))} for number in range(3)]
    once = [step.name for step in steps if step.kind in ("models", "evaluations")]
    assert sorted(once) == sorted(name for part in parts for name in part if not name.startswith("outputs"))
    for part in parts:
        assert all(
            need in part for step in steps if step.name in part and step.kind == "evaluations" for need in step.needs
        )
    assert len(select_steps(steps, ["models"])) == 4


def test_the_command_lists_and_shows_those_that_come_along(tmp_path: Path) -> None:
    assert [line.split()[0] for line in entered("study", "--list").out.splitlines()] == list(shipped_studies())
    copy = tmp_path / "copy.toml"
    copy.write_text(entered("study", "uar", "--show").out, encoding="utf-8")
    assert read_study(copy, "tiny").models == read_study("uar", "tiny").models


@pytest.mark.parametrize("name", list(shipped_studies()))
@pytest.mark.parametrize("size", ["tiny", "small", "paper"])
def test_the_four_papers_are_read_at_each_size_and_say_what_differs(name: str, size: str) -> None:
    study = read_study(name, size)
    assert study.differs and study.paper and study_steps(study)


def test_a_sheet_spells_its_cells() -> None:
    sheet = Sheet("t", ("a|b", "c"), [("=x", 1.25), ("y", float("nan"))])
    assert sheet.markdown().splitlines()[0] == "| a\\|b | c |"
    assert sheet.csv().splitlines() == ["a|b,c", "'=x,1.25", "y,nan"]
    assert set(OUTPUTS) >= {"scores", "board"}


@pytest.mark.parametrize("name", [*shipped_studies(), "benchmarks/paper_claims.toml"])
@pytest.mark.parametrize("size", ["tiny", "small"])
def test_a_size_with_other_images_has_no_stand_in_of_the_papers(name: str, size: str) -> None:
    """A forecast would otherwise be of the paper's images: of another shape, and 50,000 to train on."""
    file = name if name in shipped_studies() else Path(__file__).parents[1] / name
    for key, entry in read_study(file, size).data.items():
        if entry.stand_in is not None:
            assert entry.name == read_study(file, "paper").data[key].name


def test_the_forecast_of_a_small_size_is_of_its_own_images() -> None:
    digits = read_study("robustness-curves", "small").data["cifar10"]
    images, number = trial_images(digits, "train", 2)
    assert images.shape == (1, 8, 8) and number == 1197


def test_a_reference_is_evaluated_by_as_few_steps_as_the_models() -> None:
    """Else ratios would be of a weak attack to a strong one."""
    for name in ("uar", "multirobustbench"):
        study = read_study(name, "small")
        attack = next(iter(study.references.values())).strengths
        plan = reference_plan(next(iter(study.references.values())))
        for asked in evaluation_request(study.evaluations["main"]).attacks:
            assert isinstance(asked, Attack) and asked.name in attack
            assert plan.evaluation_attack(asked.name).plan("every") == asked.plan("every")
    with pytest.raises(UserError, match="evaluation_steps"):
        ReferencePlan("digits-cnn", {"linf": [0.1]}, evaluation_steps=20)


def test_what_is_given_in_place_of_a_preset_is_listed(tmp_path: Path) -> None:
    """By a model, by the section of all trainings, and of a reference: nothing replaces a preset's value in silence."""
    preset = 'preset = "trades"\nsettings = { batch_size = 25 }'
    reference = '[references.ata]\narchitecture = "digits-cnn"\nrule = "ata"\npresets = "uar"\n'
    reference += "strengths = { linf = [0.1] }\nattack = { linf = { epochs = 3 } }\n[outputs.scores]"
    text = without_sizes(SMALL).replace('recipe = "pgd"', preset).replace("[outputs.scores]", reference)
    found = study_differences(read_study(written(tmp_path, text)))
    (model,) = (sentence for sentence in found.presets if sentence.startswith("models.linf: "))
    for said in ("digits-cnn in place of wrn-34-10", "epochs 1 in place of 76", "batch_size 25 in place of 128",
                 "learning_rate 0.02 in place of 0.1", "linf 0.1 in place of 0.031", "1 step of PGD"):  # fmt: skip
        assert said in model
    (ata,) = (sentence for sentence in found.presets if sentence.startswith("references.ata linf: "))
    assert "epochs 3 in place of 200" in ata and "batch_size" not in ata
    shown = " ".join(entered("study", written(tmp_path, text), "--out", tmp_path / "out", "--dry-run").out.split())
    assert " ".join(model.split()) in shown and not (tmp_path / "out").exists()
