"""Vision transformers of transformers at 32 and 224 pixels, from folders that ``save_pretrained`` wrote."""

import tempfile

import torch

import robustatlas as ra


def save_model(side: int) -> str:
    """Save a small transformer with random weights, and return its folder."""
    try:
        from transformers import ViTConfig, ViTForImageClassification
    except ImportError as error:
        raise ra.UserError("needs transformers: pip install 'robustatlas[transformers]'") from error
    config = ViTConfig(
        image_size=side, patch_size=side // 4, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_labels=10
    )
    folder = tempfile.mkdtemp()
    ViTForImageClassification(config).save_pretrained(folder)
    return folder


def main() -> None:
    for side in (32, 224):
        folder = save_model(side)
        model = ra.load_model(f"hf:{folder}")
        images = torch.rand(2, 3, side, side)
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
