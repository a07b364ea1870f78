"""A defense by RobustBench's definition, here with random weights; leave ``arguments`` out for the published ones."""

import torch

import robustatlas as ra


def main() -> None:
    model = ra.load_model("robustbench:cifar10/Linf/Wong2020Fast", arguments={"pretrained": False})
    images = torch.rand(2, 3, 32, 32)
    labels = model.logits(images).argmax(1)
    result = ra.evaluate(model, (images, labels), "pgd-linf", strengths={"pgd-linf": [8 / 255]})
    print(f"{result.name}: robust accuracies {result.outcome('pgd-linf').accuracies()}")


if __name__ == "__main__":
    try:
        main()
    except ra.UserError as error:
        if "pip install" not in str(error):
            raise
        print(error)
