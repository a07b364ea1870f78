"""Train the shipped digits models and write src/robustatlas/models/shipped/*.safetensors.

python scripts/train_digits.py [NAME ...]
"""

import sys
import time
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

from robustatlas.common.noise import Noise
from robustatlas.data import Dataset, load_dataset
from robustatlas.models.architectures import digits_cnn
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.lp import L2, Linf
from robustatlas.training import Recipe, Settings, adversarial_examples, recipe_named, train

SHIPPED = Path(__file__).parents[1] / "src" / "robustatlas" / "models" / "shipped"
RECIPES: dict[str, tuple[Recipe, int]] = {
    "digits-standard": (recipe_named("standard"), 60),
    "digits-linf": (recipe_named("pgd", {"linf": 0.15}, warmup=0.5), 150),
    "digits-l2": (recipe_named("pgd", {"l2": 0.8}, warmup=0.5), 150),
    "digits-ibp": (recipe_named("ibp", {"linf": 0.1}), 150),
}
CHECKS: tuple[tuple[ThreatModel, float], ...] = ((Linf(), 0.05), (Linf(), 0.15), (L2(), 0.4), (L2(), 0.8))


def accuracy(net: nn.Module, data: Dataset, threat: ThreatModel, strength: float) -> float:
    """Percent of samples that 40 steps of projected gradient ascent leave classified correctly."""
    epsilon = torch.full((len(data),), strength)
    noise = Noise.for_samples(1, data.index, "check")
    x = adversarial_examples(net, threat, data.images, data.labels, epsilon, noise, steps=40, rate=0.1)
    return 100 * float((net(x).argmax(1) == data.labels).float().mean())


def main() -> None:
    """Train, check and save each."""
    torch.set_num_threads(1)
    training, test = load_dataset("digits", "train"), load_dataset("digits", "test")
    SHIPPED.mkdir(exist_ok=True)
    for name, (recipe, epochs) in ((name, RECIPES[name]) for name in sys.argv[1:] or RECIPES):
        began = time.perf_counter()
        torch.manual_seed(0)
        net = train(digits_cnn(), training, recipe, settings=Settings(epochs=epochs, held_out=0)).net
        with torch.no_grad():
            clean = 100 * float((net(test.images).argmax(1) == test.labels).float().mean())
        checks = [f"{type(t).__name__} {e:g}: {accuracy(net, test, t, e):.1f}" for t, e in CHECKS]
        print(f"{name}: clean {clean:.1f}, {', '.join(checks)} ({time.perf_counter() - began:.0f} s)")
        save_file(net.state_dict(), SHIPPED / f"{name}.safetensors", {"source": "scripts/train_digits.py"})


if __name__ == "__main__":
    main()
