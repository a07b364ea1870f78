"""A zero-shot classifier by a CLIP of transformers, from a folder that ``save_pretrained`` wrote (random weights)."""

import json
import tempfile
from pathlib import Path

import torch

import robustatlas as ra


def save_model(folder: Path) -> None:
    """Save a small CLIP with random weights and a tokenizer of letters."""
    try:
        from transformers import CLIPConfig, CLIPModel, CLIPTokenizer
    except ImportError as error:
        raise ra.UserError("needs transformers: pip install 'robustatlas[clip]'") from error
    letters = [chr(code) for code in range(33, 127)]
    words = ["<|startoftext|>", "<|endoftext|>", *letters, *(f"{letter}</w>" for letter in letters)]
    (folder / "vocab.json").write_text(json.dumps({word: number for number, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    small = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    text = {"vocab_size": len(words), "max_position_embeddings": 40, "bos_token_id": 0, "eos_token_id": 1}
    image = {"image_size": 32, "patch_size": 8}
    config = CLIPConfig(text_config=small | text, vision_config=small | image, projection_dim=8)
    CLIPModel(config).save_pretrained(folder)
    CLIPTokenizer.from_pretrained(folder).save_pretrained(folder)


def main() -> None:
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        save_model(Path(folder))
        arguments = {"classes": ["cat", "dog", "frog"], "prompt": "a photo of a {}"}
        model = ra.load_model(f"hf-clip:{folder}", arguments=arguments)
        images = torch.rand(4, 3, 32, 32)
        labels = model.logits(images).argmax(1)
        result = ra.evaluate(model, (images, labels), "pgd-linf", strengths={"pgd-linf": [4 / 255]}, progress=False)
        print(f"random weights: robust accuracies {result.outcome('pgd-linf').accuracies()}")


if __name__ == "__main__":
    try:
        main()
    except ra.UserError as error:
        if "pip install" not in str(error):
            raise
        print(error)
