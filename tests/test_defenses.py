import io
import math

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import robustatlas as ra
from robustatlas.attacks.definition import Attack, AttackRun
from robustatlas.common.errors import UserError
from robustatlas.common.noise import Noise
from robustatlas.data import load_dataset
from robustatlas.models.classifier.backward import Backward, going_back
from robustatlas.models.defenses import (
    BitDepthReduction,
    Defended,
    FeatureSqueezing,
    JPEGCompression,
    MedianSmoothing,
    Transformation,
    detection_threshold,
)
from robustatlas.models.loading import load_model
from robustatlas.models.objectives import margin_of
from robustatlas.optimizers.crafting import craft
from robustatlas.optimizers.pgd import PGD
from robustatlas.optimizers.square import Square
from robustatlas.threats.lp import Linf
from robustatlas.training import Opponent, adversarial_examples


def picture(channels: int, height: int, width: int) -> Tensor:
    """Smooth shapes with a little noise, in 256 levels."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(1, channels, height // 6 + 2, width // 6 + 2, generator=generator)
    smooth = nn.functional.interpolate(coarse, (height, width), mode="bicubic", align_corners=True)
    noisy = smooth + 0.05 * torch.randn(smooth.shape, generator=generator)
    return (noisy.clamp(0, 1) * 255).round() / 255


def by_pillow(x: Tensor, quality: int, subsampling: int) -> np.ndarray:
    pixels = (x[0] * 255).byte().permute(1, 2, 0).numpy()
    file = io.BytesIO()
    Image.fromarray(pixels.squeeze()).save(file, "JPEG", quality=quality, subsampling=subsampling)
    return np.asarray(Image.open(file)).astype(np.float64)


@pytest.mark.oracle
@pytest.mark.parametrize("quality", [10, 50, 75, 95])
@pytest.mark.parametrize("shape", [(1, 32, 32), (3, 32, 32), (3, 21, 45), (1, 8, 8)])
def test_jpeg_is_that_of_libjpeg(quality: int, shape: tuple[int, int, int]) -> None:
    x = picture(*shape)
    ours = JPEGCompression(quality, subsample=False)(x)[0].permute(1, 2, 0).squeeze().numpy() * 255
    difference = np.abs(ours - by_pillow(x, quality, 0))
    assert difference.mean() < 0.5
    assert (difference <= 1).mean() > 0.88


@pytest.mark.oracle
def test_jpeg_with_subsampling_has_the_luminance_of_libjpeg() -> None:
    """Decoders smooth the chrominance when they double it; here it is repeated."""
    x = ((0.25 + picture(3, 48, 48) / 2) * 255).round() / 255
    weights = np.array([0.299, 0.587, 0.114])
    ours = (JPEGCompression(75)(x)[0].permute(1, 2, 0).numpy() * 255) @ weights
    theirs = by_pillow(x, 75, 2) @ weights
    assert np.abs(ours - theirs).mean() < 0.5


def test_jpeg_in_double_and_in_batches() -> None:
    x = torch.cat([picture(3, 32, 32), picture(3, 32, 32).flip(2)]).double()
    whole = JPEGCompression(60)(x)
    assert whole.dtype == torch.float64
    assert torch.equal(whole[1:], JPEGCompression(60)(x[1:]))


def test_bits() -> None:
    squeezed = BitDepthReduction(3)(torch.linspace(0, 1, 1000))
    torch.testing.assert_close(squeezed.unique(), torch.arange(8) / 7)


@pytest.mark.oracle
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_median(size: int) -> None:
    """As scipy's, whose borders and even windows the authors of feature squeezing have."""
    from scipy.ndimage import median_filter

    x = torch.rand(2, 3, 9, 11)
    expected = median_filter(x.numpy(), size=(1, 1, size, size))
    np.testing.assert_array_equal(MedianSmoothing(size)(x).numpy(), expected)


DEFENSES = [BitDepthReduction(2), MedianSmoothing(3), MedianSmoothing(2), JPEGCompression(50)]
BACKWARD: tuple[Backward, ...] = ("true", "identity", "surrogate", "bare")


@pytest.mark.parametrize("defense", DEFENSES)
def test_values_are_the_same_whatever_the_gradient(defense: Transformation) -> None:
    x = picture(3, 12, 12).requires_grad_()
    expected = defense.exact(x.detach())
    direction = torch.randn(x.shape, generator=torch.Generator().manual_seed(1))
    slopes = {}
    for backward in BACKWARD:
        with going_back(backward):
            y = defense(x)
        assert torch.equal(y, expected)
        slopes[backward] = torch.autograd.grad((y * direction).sum(), x)[0]
    assert torch.equal(slopes["identity"], direction)
    assert torch.equal(slopes["bare"], direction)
    assert bool(slopes["true"].any()) == isinstance(defense, MedianSmoothing)
    smooth = torch.autograd.grad((defense.smooth(x) * direction).sum(), x)[0]
    assert torch.equal(slopes["surrogate"], smooth)
    assert bool(smooth.any())


@pytest.mark.parametrize("defense", DEFENSES)
def test_stand_ins_are_near_what_they_stand_for(defense: Transformation) -> None:
    """Nearer than the input itself is, but for the median, whose stand-in is a mean."""
    x = torch.rand(4, 1, 16, 16, generator=torch.Generator().manual_seed(2))
    apart = (defense.smooth(x) - defense.exact(x)).abs().mean()
    assert apart < (x - defense.exact(x)).abs().mean()


def test_the_gradient_of_the_bare_network() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 10)).double()
    defended = Defended(net, BitDepthReduction(1))
    x = torch.rand(3, 1, 8, 8, dtype=torch.float64, requires_grad=True)
    bare = torch.autograd.grad(net(x)[:, 0].sum(), x)[0]
    squeezed = x.detach().round().requires_grad_()
    at_squeezed = torch.autograd.grad(net(squeezed)[:, 0].sum(), squeezed)[0]
    assert not torch.allclose(bare, at_squeezed)
    for backward, expected in (("bare", bare), ("identity", at_squeezed), ("true", torch.zeros_like(bare))):
        with going_back(backward):  # type: ignore[arg-type]
            logits = defended(x)
        assert torch.equal(logits, net(x.detach().round()))
        torch.testing.assert_close(torch.autograd.grad(logits[:, 0].sum(), x)[0], expected)
    always = Defended(net, BitDepthReduction(1), backward="true")
    assert not torch.autograd.grad(always(x)[:, 0].sum(), x)[0].any()


@pytest.mark.parametrize("defense", [BitDepthReduction(1), JPEGCompression(10)])
def test_the_suite_is_not_masked(defense: Transformation) -> None:
    """Per sample at most as robust as by random search alone, and not robust at all where the set is large; the true
    gradient of rounding finds next to nothing."""
    data = load_dataset("digits").take(30)
    net = load_model("builtin:digits-standard").net
    assert isinstance(net, nn.Module)
    strengths = (0.1, 0.2, 0.6)
    model = ra.Classifier(Defended(net, defense))
    suite = ra.evaluate(model, data, "input-transformation", exclude=["l2"], strengths={"linf": strengths})
    square = Attack("square-linf", Linf(), (AttackRun(Square(steps=100), "margin"),), strengths)
    alone = ra.evaluate(model, data, square, search="every")
    masked = ra.Classifier(Defended(net, defense, backward="true"))
    stalled = ra.evaluate(masked, data, "pgd-linf", search="every", strengths={"pgd-linf": strengths})
    union, by_search = suite.accuracies().values("linf"), alone.accuracies().values("square-linf")
    by_zero = stalled.accuracies().values("pgd-linf")
    assert (union <= by_search).all()
    assert union[-1] == 0
    assert by_zero[0] > union[0] + 15


def test_threshold_of_a_detector() -> None:
    """Sorted clean scores, number ceil(0.95 n), as the authors' code chooses it."""
    scores = torch.rand(101, generator=torch.Generator().manual_seed(0))
    images = scores[:, None]
    for share in (5.0, 10.0, 0.0):
        expected = scores.sort().values[math.ceil(round((1 - share / 100) * 101, 9)) - 1]
        assert detection_threshold(lambda x: x[:, 0], images, share, batch_size=7) == pytest.approx(float(expected))
    with pytest.raises(UserError, match="from 0 to below 100"):
        detection_threshold(lambda x: x[:, 0], images, 100)
    with pytest.raises(UserError, match="none is given"):
        detection_threshold(lambda x: x[:, 0], images[:0])


def test_detection_by_feature_squeezing() -> None:
    """The score is the largest l1 distance of probabilities; examples that know nothing of the detector are caught,
    those that attack it as well are not: a detector is a defense to be attacked, too."""
    net = load_model("builtin:digits-standard").net
    assert isinstance(net, nn.Module)
    squeezers = (BitDepthReduction(1), MedianSmoothing(2))
    detector = FeatureSqueezing(net, *squeezers)
    data = load_dataset("digits").take(100)
    x, labels = data.images, data.labels
    with torch.no_grad():
        own = net(x).softmax(1)
        by_hand = torch.stack([(own - net(s.exact(x)).softmax(1)).abs().sum(1) for s in squeezers]).max(0).values
    torch.testing.assert_close(detector(x).detach(), by_hand)
    threshold = detection_threshold(detector, load_dataset("digits", "train").images)
    noise = Noise.for_samples(0, data.index, "test")
    epsilon = torch.full((100,), 0.3)

    def caught(examples: Tensor) -> float:
        with torch.no_grad():
            wrong = net(examples).argmax(1) != labels
            return float((detector(examples) > threshold)[wrong].float().mean())

    unaware = adversarial_examples(net, Linf(), x, labels, epsilon, noise)

    def value(logits: Tensor) -> Tensor:
        return -margin_of(logits[:, :10], labels).clamp_min(-1) - 3 * logits[:, 10]

    def both(inputs: Tensor) -> Tensor:
        return torch.cat([net(inputs), detector(inputs)[:, None]], 1)

    opponent = Opponent("linf", Linf(), 0.3, PGD(60, rate=0.05))
    aware = craft(both, opponent, x, labels, epsilon, noise, value, keep="best").x
    assert caught(aware) < caught(unaware)
    with pytest.raises(UserError, match="at least one squeezer"):
        FeatureSqueezing(net)


@pytest.mark.parametrize("defense", [BitDepthReduction(2), MedianSmoothing(3), JPEGCompression(50)])
def test_attacks_see_through_defenses(defense: nn.Module) -> None:
    data = load_dataset("digits").take(100)
    net = nn.Sequential(defense, load_model("builtin:digits-standard").net)
    epsilon = torch.full((100,), 0.2)
    found = adversarial_examples(
        net, Linf(), data.images, data.labels, epsilon, Noise.for_samples(0, data.index, "test")
    )
    with torch.no_grad():
        clean, attacked = ((net(x).argmax(1) == data.labels).float().mean() for x in (data.images, found))
    assert float(attacked) < 0.6 * float(clean)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BitDepthReduction(0), "bit depth must lie in 1..16, got 0"),
        (lambda: MedianSmoothing(0), "positive side, got 0"),
        (lambda: MedianSmoothing(5)(torch.zeros(1, 1, 4, 8)), "5 x 5 pixels needs images"),
        (lambda: BitDepthReduction(2, backward="none"), "backward='none' is not known"),  # type: ignore[arg-type]
        (lambda: BitDepthReduction(2, backward="smoothed"), "is of the ReLUs of a network"),
        (lambda: AttackRun(PGD(1), "margin", backward="none"), "backward='none' is not known"),  # type: ignore[arg-type]
        (lambda: JPEGCompression(0), "quality must lie in 1..100, got 0"),
        (lambda: JPEGCompression()(torch.zeros(1, 2, 8, 8)), "grey or RGB images"),
    ],
)
def test_wrong_settings(make: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()  # type: ignore[operator]
