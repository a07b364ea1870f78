"""A network in a file of your own.

The command line does the same: ``robustatlas evaluate examples/own_file.py:make --data digits --samples 20``.
"""

from torch import nn

import robustatlas as ra


def make() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


if __name__ == "__main__":
    model = ra.load_model(f"{__file__}:make", name="own")
    print(ra.evaluate(model, ra.load_dataset("digits"), ["linf", "l2"], samples=20))
