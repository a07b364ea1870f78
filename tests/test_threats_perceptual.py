import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

import robustatlas as ra
from robustatlas import engine
from robustatlas.attacks.definition import Attack, AttackRun
from robustatlas.common.errors import UserError
from robustatlas.models.classifier import Classifier
from robustatlas.models.classifier.backward import going_back
from robustatlas.models.objectives import margin
from robustatlas.optimizers.base import Evaluation, Problem
from robustatlas.optimizers.lpa import LPA, FastLPA
from robustatlas.optimizers.perceptual_descent import PerceptualDescent
from robustatlas.optimizers.pgd import PGD
from robustatlas.optimizers.ppgd import PPGD
from robustatlas.threats.features import ActivationFeatures, find_layers, load_features
from robustatlas.threats.flow import StAdv
from robustatlas.threats.historical.perceptual import HistoricalPerceptual
from robustatlas.threats.lp import clip_to_box
from robustatlas.threats.perceptual import Perceptual, PerceptualDistance
from threat_properties import check_independent, check_sound, degenerate_images, images, moved, noise_for


class Block(nn.Module):
    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, 2, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1)
        self.short = nn.Conv2d(channels, width, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.conv2(F.relu(self.bn1(self.conv1(x)))) + self.short(x))


class ResNet(nn.Module):
    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 8, 3, 1, 1)
        self.layer1 = nn.Sequential(Block(8, 8))
        self.layer2 = nn.Sequential(Block(8, 16))
        self.linear = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.layer2(self.layer1(F.relu(self.conv1(x)))).mean((2, 3)))


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3)
        self.conv2 = nn.Conv2d(4, 4, 3)
        self.fc = nn.Linear(4 * 16, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(F.relu(self.conv2(F.relu(self.conv1(x)))).flatten(1))


def resnet(channels: int = 3, dtype: torch.dtype = torch.float32) -> Classifier:
    torch.manual_seed(0)
    return Classifier(ResNet(channels).to(dtype), (0.5,) * channels, (0.25,) * channels, name="resnet")


def lpips(channels: int = 3, dtype: torch.dtype = torch.float32, kind: type[Perceptual] = Perceptual) -> Perceptual:
    return kind().for_model(resnet(channels, dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("channels", [1, 3])
def test_is_a_sound_set(channels, dtype):
    threat = lpips(channels, dtype)
    for x in (images(channels=channels, dtype=dtype), degenerate_images(channels, dtype=dtype)):
        check_sound(threat, x, 0.5)
        check_independent(threat, x, 0.5)


@pytest.mark.parametrize("strength", [1e-3, 0.025, 0.2, 5.0])
@pytest.mark.parametrize("far", [0.01, 0.3, 3.0])
def test_projection_is_inside_and_near_the_border(strength, far):
    x, threat = images(count=8), lpips()
    theta = far * noise_for(x).normal(*x.shape[1:])
    epsilon = torch.full((8,), strength)
    before = threat.size(x, (x + theta).clamp(0, 1) - x)
    projected = threat.project(x, theta, epsilon)
    after = threat.size(x, projected)
    assert (after <= epsilon).all()
    outside = before > epsilon
    assert (after[outside] > 0.8 * epsilon[outside]).all()
    torch.testing.assert_close(projected[~outside], ((x + theta).clamp(0, 1) - x)[~outside])


def test_projection_has_no_nan_at_extreme_strengths():
    for x in (images(), degenerate_images()):
        for threat in (lpips(), lpips(kind=HistoricalPerceptual)):
            for strength in (0.0, 0.5, 5.0, torch.inf):
                theta = threat.project(x, moved(threat, x, 1.0), x.new_full((len(x),), strength))
                assert torch.isfinite(threat.apply(x, theta)).all()


def test_historical_projection_ends_close_to_the_set():
    x, threat = images(count=8), lpips(kind=HistoricalPerceptual)
    theta = 0.3 * noise_for(x).normal(*x.shape[1:])
    size = threat.size(x, threat.project(x, theta, torch.full((8,), 0.1)))
    assert (size <= 0.1 * 1.02).all()


def test_distance_is_that_of_the_definition():
    model, x, other = resnet(dtype=torch.float64), images(dtype=torch.float64), images(dtype=torch.float64).flip(0)
    net = model.net.eval()
    total = torch.zeros(3, dtype=torch.float64)
    with torch.no_grad():
        one, two = F.relu(net.conv1((x - 0.5) / 0.25)), F.relu(net.conv1((other - 0.5) / 0.25))
        for stage in (net.layer1, net.layer2):
            one, two = stage(one), stage(two)
            for b in range(3):
                for i in range(one.shape[2]):
                    for j in range(one.shape[3]):
                        p, q = one[b, :, i, j], two[b, :, i, j]
                        difference = p / (p.norm() + 1e-10) - q / (q.norm() + 1e-10)
                        total[b] += difference.square().sum() / (one.shape[2] * one.shape[3])
    distance = PerceptualDistance(ActivationFeatures(model))
    torch.testing.assert_close(distance(x, other).detach(), total.sqrt())
    torch.testing.assert_close(distance(other, x).detach(), total.sqrt())


def test_distance_has_the_right_gradient():
    distance = PerceptualDistance(ActivationFeatures(resnet(dtype=torch.float64)))
    x = images(count=1, side=6, dtype=torch.float64)
    other = (x + 0.05 * noise_for(x).normal(*x.shape[1:], dtype=x.dtype)).requires_grad_()
    assert torch.autograd.gradcheck(lambda point: distance(x, point), other, eps=1e-7, atol=1e-4)


def test_remembered_features_follow_the_images():
    distance = PerceptualDistance(lambda x: [x])
    x, other = images(), images().flip(0)
    first = distance(x, other)
    assert torch.equal(distance(x, other), first)
    x[:] = other
    assert torch.equal(distance(x, other), torch.zeros(3))
    assert not torch.equal(distance(images(), other), torch.zeros(3))


def test_stages_are_found():
    x = images()
    assert find_layers(resnet(), x) == ("layer1", "layer2")
    wrapped = Classifier(nn.Sequential(nn.BatchNorm2d(3), ResNet()))
    assert find_layers(wrapped, x) == ("1.layer1", "1.layer2")
    assert find_layers(Classifier(Plain()), images(channels=1, side=8)) == ("conv1", "conv2")
    alexnet = nn.Sequential()
    alexnet.features = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3), nn.ReLU())
    alexnet.classifier = nn.Sequential(nn.Flatten(), nn.Linear(4 * 9, 5), nn.ReLU(), nn.Linear(5, 5))
    assert find_layers(Classifier(alexnet), images()) == ("features.1", "features.4")
    vgg = nn.Sequential(*[layer for _ in range(8) for layer in (nn.Conv2d(3, 3, 3, 1, 1), nn.ReLU())], nn.MaxPool2d(2))
    vgg.extend([nn.Conv2d(3, 3, 3, 1, 1), nn.ReLU(), nn.Flatten()])
    assert find_layers(Classifier(vgg), images()) == ("15", "18")
    mlp = nn.Sequential(nn.Flatten(), nn.Linear(64, 9), nn.ReLU(), nn.Linear(9, 5))
    assert find_layers(Classifier(mlp), images(channels=1, side=8)) == ("2",)


def test_finding_and_reading_leaves_the_network_alone():
    model = resnet()
    model.net.train()
    ActivationFeatures(model)(images())
    assert all(module.training for module in model.net.modules())
    assert not any(module._forward_hooks for module in model.net.modules())
    assert int(model.net.layer1[0].bn1.num_batches_tracked) == 0


def test_layers_can_be_named_and_passes_are_counted():
    model = resnet()
    features = ActivationFeatures(model, ["layer1.0.conv1", "linear"])
    first, second = features(images())
    assert first.shape == (3, 8, 6, 6) and second.shape == (3, 5)
    assert model.forward_passes == 3
    assert PerceptualDistance(features)(images(), images().flip(0)).shape == (3,)
    with pytest.raises(UserError, match="no layer 'layer9'"):
        ActivationFeatures(model, ["layer9"])
    with pytest.raises(UserError, match=r"nn\.Module"):
        ActivationFeatures(Classifier(lambda x: x.flatten(1)))
    with pytest.raises(UserError, match="name its layers"):
        find_layers(Classifier(nn.Sequential(nn.Flatten())), images())


def test_tokens_are_normalised_over_their_channels():
    tokens = torch.randn(2, 5, 7)
    as_maps = tokens.transpose(1, 2)[..., None]
    assert torch.equal(
        PerceptualDistance(lambda x: [x]).embed(tokens), PerceptualDistance(lambda x: [x]).embed(as_maps)
    )


ARCHITECTURES = {
    "alexnet": ({0: (64, 3, 11), 3: (192, 64, 5), 6: (384, 192, 3), 8: (256, 384, 3), 10: (256, 256, 3)}, 5, 64),
    "alexnet_cifar": ({0: (64, 3, 3), 3: (192, 64, 3), 6: (384, 192, 3), 8: (256, 384, 3), 10: (256, 256, 3)}, 5, 32),
}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("suffix", ["safetensors", "pt"])
def test_backbones_from_a_file(tmp_path, architecture, suffix):
    convolutions, count, side = ARCHITECTURES[architecture]
    state = {}
    for index, (out, into, kernel) in convolutions.items():
        state[f"module.features.{index}.weight"] = torch.randn(out, into, kernel, kernel) / (into * kernel**2) ** 0.5
        state[f"module.features.{index}.bias"] = torch.zeros(out)
    state["module.classifier.1.weight"] = torch.zeros(3, 3)
    path = tmp_path / f"weights.{suffix}"
    if suffix == "safetensors":
        save_file(state, path)
    else:
        torch.save({"epoch": 3, "state": {"model": state}}, path)
    features = load_features(architecture, path)
    x = images(count=2, side=side)
    activations = features(x)
    assert [a.shape[1] for a in activations] == [64, 192, 384, 256, 256] and len(activations) == count
    assert all((a >= 0).all() for a in activations)
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    weight = state["module.features.0.weight"]
    stride, padding = (4, 2) if architecture == "alexnet" else (2, 1)
    first = F.conv2d((x - mean.view(3, 1, 1)) / std.view(3, 1, 1), weight, None, stride, padding).relu()
    torch.testing.assert_close(activations[0], first)
    with pytest.raises(UserError, match="does not fit vgg16"):
        load_features("vgg16", path)


def test_missing_weights_and_unknown_architectures():
    with pytest.raises(UserError, match="no weights file"):
        load_features("alexnet", "nowhere.pt")
    with pytest.raises(UserError, match="not known"):
        load_features("resnet", "nowhere.pt")


def test_without_features_the_error_says_what_to_do():
    with pytest.raises(UserError, match="for_model"):
        Perceptual().check(images())
    given = lpips()
    assert given.for_model(resnet()) is given


def run(optimizer, threat: Perceptual, x: Tensor, labels: Tensor, epsilon: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Thetas and objectives of all iterates."""
    with threat.phi.features.model.evaluating() as model:
        return run_in_evaluation_mode(model, optimizer, threat, x, labels, epsilon)


def run_in_evaluation_mode(model, optimizer, threat, x, labels, epsilon) -> tuple[list[Tensor], list[Tensor]]:
    problem = Problem(threat, x, labels, torch.full_like(labels, -1), epsilon, noise_for(x))
    state = optimizer.init(problem, threat.start(x, epsilon, noise_for(x)))
    thetas, values = [], []
    while True:
        theta = state.theta.detach().requires_grad_()
        logits = model.logits(threat.apply(x, theta))
        value = margin(logits, labels, None)
        (gradient,) = torch.autograd.grad(value.sum(), theta)
        thetas.append(state.theta)
        values.append(value.detach())
        fooled = logits.argmax(1) != labels
        size = threat.size(x, state.theta)
        state = optimizer.step(problem, state, Evaluation(logits.detach(), value.detach(), gradient, fooled, size))
        if optimizer.finished(state).all():
            return thetas, values


def task() -> tuple[Perceptual, Tensor, Tensor, Tensor]:
    threat, x = lpips(), images(count=6)
    with torch.no_grad(), threat.phi.features.model.evaluating():
        labels = threat.phi.features.model.logits(x).argmax(1)
    return threat, x, labels, torch.full((6,), 0.2)


@pytest.mark.parametrize("optimizer", [PPGD(steps=10, rate=0.2), LPA(steps=8, rounds=3)])
def test_attacks_climb_and_end_inside(optimizer):
    threat, x, labels, epsilon = task()
    thetas, values = run(optimizer, threat, x, labels, epsilon)
    assert (threat.size(x, thetas[-1]) <= epsilon).all()
    climbed = values[-1] > values[0]
    assert climbed.float().mean() > 0.8


def test_ppgd_moves_the_features_by_its_length():
    threat, x, labels, epsilon = task()
    free = torch.full_like(epsilon, torch.inf)
    problem = Problem(threat, x, labels, torch.full_like(labels, -1), epsilon, noise_for(x))
    theta = threat.neutral(x) + 1e-3
    point = theta.clone().requires_grad_()
    with threat.phi.features.model.evaluating() as model:
        value = margin(model.logits(x + point), labels, None)
    (gradient,) = torch.autograd.grad(value.sum(), point)
    evaluation = Evaluation(value, value.detach(), gradient, value > 0, free)
    optimizer = PPGD(rate=0.05)
    moved_theta = optimizer.step(problem, optimizer.init(problem, theta), evaluation).theta
    with torch.no_grad():
        length = (threat.phi.embed(x + moved_theta) - threat.phi.embed(x + theta)).norm(dim=1)
    torch.testing.assert_close(length, 0.05 * epsilon, rtol=0.35, atol=0)


def test_ppgd_solves_the_normal_equations():
    torch.manual_seed(1)
    basis = torch.randn(2, 5, 5, dtype=torch.float64)
    matrix = basis @ basis.transpose(1, 2) + torch.eye(5, dtype=torch.float64)
    right = 10 * torch.randn(2, 5, dtype=torch.float64)
    solution = PPGD(conjugate=5)._solve(lambda v: (matrix @ v[..., None])[..., 0], right)
    assert ((matrix @ solution[..., None])[..., 0] - right).square().sum(1).max() < 0.1


def test_samples_fooled_by_the_confidence_stay():
    threat, x, labels, epsilon = task()
    problem = Problem(threat, x, labels, torch.full_like(labels, -1), epsilon, noise_for(x))
    theta = threat.start(x, epsilon, noise_for(x))
    sure = Evaluation(torch.zeros(6, 5), torch.full((6,), 2.0), torch.ones_like(x), torch.ones(6).bool(), epsilon)
    assert torch.equal(PPGD().step(problem, PPGD().init(problem, theta), sure).theta, theta)


def test_fast_lpa_starts_gently_and_ends_near_the_set():
    threat, x, labels, epsilon = task()
    thetas, values = run(FastLPA(steps=10), threat, x, labels, epsilon)
    assert len(thetas) == 11
    assert (threat.size(x, thetas[-1]) < 3 * epsilon).all()
    assert values[-1].mean() > values[0].mean()


@pytest.mark.parametrize("optimizer", [PPGD(), LPA(), FastLPA(), PerceptualDescent()])
def test_other_threat_models_are_refused(optimizer):
    with pytest.raises(UserError, match="StAdv"):
        optimizer.check(StAdv())


class Stretched(PerceptualDistance):
    """The same distance in another unit."""

    def embed(self, x: Tensor) -> Tensor:
        return 50 * super().embed(x)


def test_scaled_steps_do_not_depend_on_the_unit_of_the_distance():
    threat, x, labels, epsilon = task()
    stretched = Perceptual(Stretched(threat.phi.features))
    optimizer = PGD(steps=5, rate=0.1, schedule="cosine", momentum=0.85, scaled=True)
    thetas, values = run(optimizer, threat, x, labels, epsilon)
    same, _ = run(optimizer, stretched, x, labels, 50 * epsilon)
    torch.testing.assert_close(same[-1], thetas[-1], rtol=0, atol=1e-4)
    assert values[-1].mean() > values[0].mean()

    other, _ = run(PGD(steps=5, rate=0.1, schedule="cosine", momentum=0.85), threat, x, labels, epsilon)
    assert not torch.allclose(other[-1], thetas[-1], atol=1e-2)


def test_scaled_steps_leave_the_clean_image():
    threat, x, labels, epsilon = task()
    optimizer = PGD(rate=0.1, scaled=True)
    problem = Problem(threat, x, labels, torch.full_like(labels, -1), epsilon, noise_for(x))
    zero = torch.zeros_like(epsilon)
    evaluation = Evaluation(torch.zeros(6, 5), zero, torch.ones_like(x), zero > 0, zero)
    moved_theta = optimizer.step(problem, optimizer.init(problem, threat.neutral(x)), evaluation).theta
    assert (threat.size(x, moved_theta) > 0).all()


def test_pgd_runs_on_the_perceptual_set():
    threat, x, labels, epsilon = task()
    thetas, values = run(PGD(steps=10, rate=0.5, schedule="cosine"), threat, x, labels, epsilon)
    assert (threat.size(x, thetas[-1]) <= epsilon).all()
    assert values[-1].mean() > values[0].mean()


DESCENT = AttackRun(PerceptualDescent(), "margin", start="neutral")


class Linear(PerceptualDistance):
    """||A (x - x')||_2."""

    def __init__(self, matrix: Tensor) -> None:
        super().__init__(lambda x: [x])
        self.matrix = matrix

    def embed(self, x: Tensor) -> Tensor:
        return x.flatten(1) @ self.matrix.T


@pytest.mark.parametrize("condition", [1.0, 10.0])
def test_descent_finds_the_nearest_point_of_a_plane(condition):
    torch.manual_seed(0)
    rotation = torch.linalg.qr(torch.randn(27, 27, dtype=torch.float64)).Q
    matrix = torch.logspace(0, np.log10(condition), 27, dtype=torch.float64).diag() @ rotation
    net = nn.Sequential(nn.Flatten(), nn.Linear(27, 2, dtype=torch.float64))
    x = 0.5 + 0.02 * torch.rand(5, 3, 3, 3, dtype=torch.float64)
    with torch.no_grad():
        net[1].bias.copy_(-(net[1].weight @ x.flatten(1).T).mean(1))
        labels = net(x).argmax(1)
        gap = (net(x)[:, 0] - net(x)[:, 1]).abs()
        normal = net[1].weight[0] - net[1].weight[1]
    exact = gap / (normal @ torch.linalg.solve(matrix.T @ matrix, normal)).sqrt()

    attack = Attack("near", Perceptual(Linear(matrix)), (DESCENT,), (1.0,), unbounded=True)
    result = ra.evaluate(net, (x, labels), attack, search="minimum", progress=False)
    sizes = torch.from_numpy(result.minimal_size("near"))
    assert (sizes >= exact * (1 - 1e-9)).all()
    assert (sizes <= exact * 1.01).all()


@pytest.mark.parametrize("own", [True, False])
def test_sizes_come_from_the_pass_of_the_logits_where_features_are_its_own(own):
    model, x = resnet(dtype=torch.float64), images(dtype=torch.float64)
    other = Classifier(ResNet().double().eval())
    threat = Perceptual(PerceptualDistance(ActivationFeatures(model if own else other, ("layer1", "layer2"))))
    theta = clip_to_box(x, 0.01 * noise_for(x).normal(*x.shape[1:], dtype=x.dtype))
    labels = torch.zeros(len(x), dtype=torch.int64)
    with model.evaluating():
        problem = Problem(threat, x, labels, labels - 1, x.new_ones(len(x)), noise_for(x), threat.reference(x))
        with model.counting() as passes, other.counting() as others:
            found = engine.evaluate(model, problem, DESCENT, theta)
        distance, slope = threat.linearised(x, theta)
        torch.testing.assert_close(found.size, distance, rtol=0, atol=1e-12)
        torch.testing.assert_close(found.size_gradient, slope(), rtol=0, atol=1e-12)
        logits = model.logits(x + theta)
    torch.testing.assert_close(found.logits, logits.detach(), rtol=0, atol=0)
    assert (passes.forward, passes.backward) == ((3, 6) if own else (3, 3))
    assert (others.forward, others.backward) == ((0, 0) if own else (3, 3))


def test_activations_of_other_passes_are_not_taken():
    model = resnet()
    features = ActivationFeatures(model, ("layer1", "layer2"))
    rough = Classifier(model, precision="bfloat16")
    drawing = Classifier(model, draws=2)
    for which, taken in ((model, True), (resnet(), False), (rough, False), (drawing, False)):
        with features.share_passes(which) as activations:
            assert (activations is not None) == taken
    with going_back("surrogate"), features.share_passes(model) as activations:
        assert activations is None


def test_examples_are_inside_by_a_distance_of_our_own(tmp_path):
    """Features by hand, in float64, from images as they were kept in float32."""
    model, x = resnet(dtype=torch.float64), images(count=6, dtype=torch.float64)
    net = model.net.eval()
    with torch.no_grad():
        labels = model.logits(x).argmax(1)
    result = ra.evaluate(model, (x, labels), "lpips", run=tmp_path / "run", keep_adversarial=True, progress=False)
    rows, kept = result.adversarial("lpips")
    assert len(rows) >= 4
    size, x, labels, other = result.minimal_size("lpips")[rows], x[rows], labels[rows], torch.from_numpy(kept).double()
    total = torch.zeros(len(x), dtype=torch.float64)
    with torch.no_grad():
        assert (model.logits(other).argmax(1) != labels).all()
        one, two = (F.relu(net.conv1((each - 0.5) / 0.25)) for each in (x, other))
        for stage in (net.layer1, net.layer2):
            one, two = stage(one), stage(two)
            difference = F.normalize(one, dim=1, eps=1e-30) - F.normalize(two, dim=1, eps=1e-30)
            total += difference.square().sum(1).mean((1, 2))
    np.testing.assert_allclose(total.sqrt().numpy(), size, rtol=1e-4)
