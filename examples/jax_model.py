"""A function of JAX as a model: compiled forward and backward, attacked as any other."""

from typing import Any

import torch

import robustatlas as ra


def main() -> None:
    weights = torch.randn(10, 64, generator=torch.Generator().manual_seed(0)).numpy()

    def net(x: Any) -> Any:
        return x.reshape(len(x), -1) @ weights.T

    data = ra.load_dataset("digits").take(20)
    model = ra.from_jax(net)
    labels = model.logits(data.images).argmax(1)
    result = ra.evaluate(model, (data.images, labels), "linf")
    print(f"{result.name}: robust accuracies {result.outcome('linf').accuracies()}")


if __name__ == "__main__":
    try:
        main()
    except ra.UserError as error:
        if "pip install" not in str(error):
            raise
        print(error)
