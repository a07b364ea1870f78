"""What the suite `everyday` costs: 200 images of 32x32 through a ResNet-20, and the same by a loop over Pillow.

    python benchmarks/everyday.py [--images 200] [--threads 2] [--output FILE.json]

The weights are random and the labels are what the network says, so that every image is attacked, and few are broken
before the last point of a sweep: more work than with a trained network. The loop makes the images of each point one by
one with Pillow, for those changes that Pillow has, and asks the network about all images that still stand at once.
Both give the network images channels last, which processors convolve in about two thirds of the time. Seconds are of
the clock, which other work on the machine prolongs, and of the processor, all processes together.
"""

import argparse
import io
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageEnhance
from torch import Tensor, nn

import robustatlas as ra
from robustatlas.attacks.everyday import everyday_suite
from robustatlas.models.architectures import resnet20

SIDE = 32
BILINEAR = Image.Resampling.BILINEAR
Change = Callable[[Image.Image, tuple[float, ...]], Image.Image]


def moved(matrix: Callable[..., tuple[float, ...]]) -> Change:
    return lambda image, point: image.transform(image.size, Image.Transform.AFFINE, matrix(*point), BILINEAR)


def zoom(per_cent: float) -> tuple[float, ...]:
    scale, middle = 1 / (1 + per_cent / 100), SIDE / 2
    return (scale, 0, middle * (1 - scale), 0, scale, middle * (1 - scale))


def shear(degrees: float) -> tuple[float, ...]:
    slope = math.tan(math.radians(degrees))
    return (1, -slope, slope * SIDE / 2, 0, 1, 0)


def jpeg(image: Image.Image, point: tuple[float, ...]) -> Image.Image:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=100 - round(point[0]))
    return Image.open(file)


def coarse(image: Image.Image, point: tuple[float, ...]) -> Image.Image:
    small = max(1, round(SIDE * (1 - point[0] / 100)))
    return image.resize((small, small), BILINEAR).resize((SIDE, SIDE), BILINEAR)


def crop(image: Image.Image, point: tuple[float, ...]) -> Image.Image:
    kept = SIDE * (1 - point[0] / 100)
    left, top = point[1] * (SIDE - kept), point[2] * (SIDE - kept)
    return image.resize((SIDE, SIDE), BILINEAR, (left, top, left + kept, top + kept))


def occlusion(image: Image.Image, point: tuple[float, ...]) -> Image.Image:
    side = SIDE * math.sqrt(point[0] / 100)
    left, top = point[1] * (SIDE - side), point[2] * (SIDE - side)
    covered = image.copy()
    ImageDraw.Draw(covered).rectangle((left, top, left + side - 1, top + side - 1), fill=(128, 128, 128))
    return covered


PILLOW: dict[str, Change] = {
    "rotation": lambda image, point: image.rotate(point[0], BILINEAR),
    "translation-percent": moved(lambda right, down: (1, 0, -right * SIDE / 100, 0, 1, -down * SIDE / 100)),
    "zoom": moved(zoom),
    "shear": moved(shear),
    "crop": crop,
    "contrast-percent": lambda image, point: ImageEnhance.Contrast(image).enhance(1 + point[0] / 100),
    "saturation-percent": lambda image, point: ImageEnhance.Color(image).enhance(1 + point[0] / 100),
    "jpeg-quality": jpeg,
    "resolution": coarse,
    "occlusion": occlusion,
}


def pictures(count: int) -> Tensor:
    """Smooth random images of whole levels."""
    generator = torch.Generator().manual_seed(0)
    small = torch.rand(count, 3, 8, 8, generator=generator)
    large = nn.functional.interpolate(small, size=SIDE, mode="bicubic").clamp(0, 1)
    return (large * 255).round() / 255


def points_of(attack: Any) -> Iterator[tuple[float, ...]]:
    """The points of the sweep, the smallest first."""
    sweep = attack.runs[0].optimizer
    for point in sweep.grid().tolist():
        held = [value * attack.strengths[-1] for value in point[: sweep.bounded]]
        yield (*held, *point[sweep.bounded :])


def by_pillow(net: nn.Module, images: Tensor, labels: Tensor, attacks: list[Any]) -> dict[str, int]:
    """How many images stand each of the changes that Pillow has."""
    files = [Image.fromarray(image) for image in (images * 255).byte().permute(0, 2, 3, 1).numpy()]
    standing = {}
    for attack in attacks:
        left = list(range(len(files)))
        for point in points_of(attack):
            made = np.stack([np.asarray(PILLOW[attack.name](files[row], point)) for row in left])
            with torch.no_grad():
                said = net(torch.from_numpy(made).permute(0, 3, 1, 2).float() / 255).argmax(1)
            left = [row for row, label in zip(left, said.tolist(), strict=True) if label == int(labels[row])]
            if not left:
                break
        standing[attack.name] = len(left)
    return standing


def measured(work: Callable[[], Any]) -> tuple[dict[str, float], Any]:
    clock, processor = time.perf_counter(), sum(os.times()[:4])
    found = work()
    return {
        "seconds": round(time.perf_counter() - clock, 2),
        "processor seconds": round(sum(os.times()[:4]) - processor, 2),
    }, found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "everyday.json")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    torch.manual_seed(0)
    images = pictures(asked.images)
    nets = {
        "ResNet-20": resnet20(3, SIDE, 10).eval(),
        "linear": nn.Sequential(nn.Flatten(), nn.Linear(3 * SIDE * SIDE, 10)).eval(),
    }
    suite = [attack.on_images((SIDE, SIDE)) for attack in everyday_suite("default")]
    alone = [attack for attack in suite if attack.name in PILLOW]
    found: dict[str, Any] = {
        "images": asked.images,
        "threads": asked.threads,
        "torch": torch.__version__,
        "points": sum(attack.runs[0].optimizer.steps for attack in suite),
        "draws": sum(attack.typical * len(attack.strengths) for attack in suite),
    }
    quiet = {"diagnose": False, "audit": 0, "progress": False}
    for name, net in nets.items():
        with torch.no_grad():
            labels = net(images).argmax(1)
        model = ra.Classifier(net)
        whole, result = measured(lambda m=model, y=labels: ra.evaluate(m, (images, y), "everyday", **quiet))
        whole["standing"] = {a: int(result.correct(a)[:, -1].sum()) for a in result.attacks}
        whole["forward passes a sample"] = sum(result.passes(a)[0] for a in result.attacks)
        worst = [replace(a, typical=0, small=None) for a in alone]
        ours, _ = measured(lambda m=model, y=labels, w=worst: ra.evaluate(m, (images, y), w, **quiet))
        theirs, stands = measured(lambda n=net, y=labels: by_pillow(n, images, y, alone))
        found[name] = {
            "the suite": whole,
            "worst cases of what Pillow has": ours,
            "the same by a loop over Pillow": {**theirs, "standing": stands},
            "Pillow / ours": round(theirs["seconds"] / ours["seconds"], 2),
        }
        print(name, json.dumps(found[name], indent=1))
    asked.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
