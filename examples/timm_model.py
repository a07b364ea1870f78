"""A model of timm, here with random weights; leave ``arguments`` out for the published ones."""

import torch

import robustatlas as ra


def main() -> None:
    model = ra.load_model("timm:resnet18", arguments={"pretrained": False, "num_classes": 10})
    images = torch.rand(4, 3, 32, 32)
    labels = model.logits(images).argmax(1)
    result = ra.evaluate(model, (images, labels), "linf", strengths={"linf": [4 / 255, 8 / 255]})
    print(f"{result.name}: robust accuracies {result.outcome('linf').accuracies()}")


if __name__ == "__main__":
    try:
        main()
    except ra.UserError as error:
        if "pip install" not in str(error):
            raise
        print(error)
