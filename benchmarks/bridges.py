"""The same network in torch, JAX, TensorFlow and ONNX: how closely they agree, and what the bridges cost.

    python benchmarks/bridges.py [--samples 100] [--batch 256] [--rounds 15] [--output FILE.json]

Agreement: the shipped network ``digits-linf`` on test digits (logits, gradients, smallest linf sizes, robust accuracy)
and a ResNet-20 with random weights (logits, gradients; in float64 as well, where rounding puts next to no ReLU on the
other side of its kink, and torch in float32 beside that). Cost: forward and backward pass of the ResNet-20 at
``--batch`` images, through the bridge and by the framework itself (JAX: both passes compiled as one function;
TensorFlow: a tape in a function of its own). Bridge and framework alternate, and the fastest of all rounds counts, so
that other work on the machine disturbs little. What is not installed is left out.
"""

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Mapping
from copy import deepcopy
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

import robustatlas as ra
from robustatlas.models.architectures import resnet20

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

STRENGTHS = [0.05, 0.1, 0.15, 0.2]
Function = Callable[[Any], Any]


def fused_resnet() -> nn.Module:
    """ResNet-20 in eval mode, its normalisation folded into its convolutions."""
    torch.manual_seed(0)
    net = resnet20().eval().requires_grad_(False)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)  # type: ignore[union-attr]
            module.running_var.uniform_(0.5, 2)  # type: ignore[union-attr,operator]
    for module in net.modules():
        for conv, norm in (("conv1", "bn1"), ("conv2", "bn2")):
            if hasattr(module, norm):
                setattr(module, conv, fuse_conv_bn_eval(getattr(module, conv), getattr(module, norm)))
                setattr(module, norm, nn.Identity())
    return net


class Framework:
    """Operations of a framework that the networks need; images are [B, H, W, C] inside."""

    def __init__(self, name: str) -> None:
        if name == "jax":
            import jax

            self.relu, self.last = jax.nn.relu, lambda x: jax.numpy.transpose(x, (0, 2, 3, 1))
            self.constant, self.pad = jax.numpy.asarray, jax.numpy.pad
            self.conv = lambda x, w, stride: jax.lax.conv_general_dilated(
                x, w, (stride, stride), ((1, 1), (1, 1)), dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            self.mean, self.flat = lambda x: x.mean((1, 2)), lambda x: x.transpose(0, 3, 1, 2).reshape(len(x), -1)
        else:
            import tensorflow as tf

            self.relu, self.last = tf.nn.relu, lambda x: tf.transpose(x, (0, 2, 3, 1))
            self.constant, self.pad = tf.constant, tf.pad
            around = ((0, 0), (1, 1), (1, 1), (0, 0))
            self.conv = lambda x, w, stride: tf.nn.conv2d(tf.pad(x, around), w, stride, "VALID")
            self.mean = lambda x: tf.reduce_mean(x, (1, 2))
            self.flat = lambda x: tf.reshape(tf.transpose(x, (0, 3, 1, 2)), (x.shape[0], -1))

    def to_constant(self, values: Tensor) -> Any:
        return self.constant(values.detach().numpy())

    def convolution(self, module: nn.Conv2d) -> Function:
        weight, bias = self.to_constant(module.weight.permute(2, 3, 1, 0)), self.to_constant(module.bias)  # type: ignore[arg-type]
        stride = module.stride[0]
        return lambda x: self.conv(x, weight, stride) + bias

    def linear(self, module: nn.Linear) -> Function:
        weight, bias = self.to_constant(module.weight.T), self.to_constant(module.bias)
        return lambda x: x @ weight + bias

    def digits(self, net: nn.Module) -> Function:
        """The shipped network, of images [B, 1, 8, 8]."""
        first, second, third, fourth = (m for m in net.modules() if isinstance(m, nn.Conv2d | nn.Linear))
        one, two = self.convolution(first), self.convolution(second)  # type: ignore[arg-type]
        three, four = self.linear(third), self.linear(fourth)  # type: ignore[arg-type]
        return lambda x: four(self.relu(three(self.flat(self.relu(two(self.relu(one(self.last(x)))))))))

    def resnet(self, net: Any) -> Function:
        """The ResNet-20, of images [B, 3, 32, 32]."""
        stem, head = self.convolution(net.conv1), self.linear(net.linear)
        blocks = [
            (self.convolution(b.conv1), self.convolution(b.conv2), b.stride, b.added)
            for layer in (net.layer1, net.layer2, net.layer3)
            for b in layer
        ]

        def logits(x: Any) -> Any:
            x = self.relu(stem(self.last(x)))
            for first, second, stride, added in blocks:
                shortcut = self.pad(x[:, ::stride, ::stride], ((0, 0), (0, 0), (0, 0), (added, added)))
                x = self.relu(shortcut + second(self.relu(first(x))))
            return head(self.mean(x))

        return logits


class Traced:
    """A function that counts how often it is traced."""

    def __init__(self, function: Function) -> None:
        self.function, self.count = function, 0

    def __call__(self, x: Any) -> Any:
        self.count += 1
        return self.function(x)


def onnx_model(net: nn.Module, x: Tensor) -> ra.Classifier:
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/net.onnx"
        dynamic = ({0: torch.export.Dim("batch")},)
        torch.onnx.export(net, (x[:2],), file, dynamo=True, dynamic_shapes=dynamic, verbose=False)
        return ra.load_model(f"onnx:{file}")


def functions(net: nn.Module, kind: str) -> dict[str, Traced]:
    """Return the network in the frameworks that are installed."""
    return {name: Traced(getattr(Framework(name), kind)(net)) for name in ("jax", "tensorflow") if find_spec(name)}


def models(net: nn.Module, x: Tensor, others: Mapping[str, Function]) -> dict[str, ra.Classifier]:
    """The network by every way there is."""
    bridges = {"jax": ra.from_jax, "tensorflow": ra.from_tensorflow}
    ways = {"torch": ra.Classifier(net)}
    ways |= {name: bridges[name](function, dtype=x.dtype) for name, function in others.items()}
    if find_spec("onnx") and find_spec("onnxscript"):
        ways["onnx"] = onnx_model(net, x)
    return ways


def gradient(model: ra.Classifier, x: Tensor, labels: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(nn.functional.cross_entropy(model.logits(x), labels, reduction="sum"), x)[0]


def relative_distance(one: Tensor, other: Tensor) -> Tensor:
    return (one - other).flatten(1).norm(dim=1) / other.flatten(1).norm(dim=1)


def pointwise(ways: Mapping[str, ra.Classifier], x: Tensor, labels: Tensor) -> dict[str, dict[str, float]]:
    """Largest difference of the logits, relative to the largest; median and largest difference of a sample's gradient,
    relative to its norm. Where a unit of a ReLU network is 0 but for rounding, gradients differ by all that it passes.
    """
    logits, slope = ways["torch"].logits(x).detach(), gradient(ways["torch"], x, labels)
    return {
        name: {
            "logits": float((model.logits(x).detach() - logits).abs().max() / logits.abs().max()),
            "gradients": float(relative_distance(gradient(model, x, labels), slope).median()),
            "gradients_largest": float(relative_distance(gradient(model, x, labels), slope).max()),
        }
        for name, model in ways.items()
        if name != "torch"
    }


def compare_float64(net: nn.Module, x: Tensor, labels: Tensor) -> dict[str, dict[str, float]]:
    """Return the differences of `pointwise` in float64, and those that float32 itself makes in torch."""
    if find_spec("jax"):
        import jax

        jax.config.update("jax_enable_x64", True)
    exact = deepcopy(net).double()
    ways = models(exact, x.double(), functions(exact, "resnet"))
    ways["torch in float32"] = ra.Classifier(lambda x: net(x.float()).double(), dtype=torch.float64)
    return pointwise(ways, x.double(), labels)


def attacked(ways: Mapping[str, ra.Classifier], data: ra.Dataset) -> dict[str, dict[str, Any]]:
    """Return the share of samples whose sizes agree to a thousandth, and the largest difference in robust accuracy."""
    found = {name: ra.evaluate(model, data, "linf", strengths={"linf": STRENGTHS}) for name, model in ways.items()}
    sizes, accuracies = found["torch"].minimal_size("linf"), found["torch"].accuracies().values("linf")
    return {
        name: {
            "equal_sizes_percent": float(100 * np.isclose(result.minimal_size("linf"), sizes, rtol=1e-3).mean()),
            "accuracy_difference": float(np.abs(result.accuracies().values("linf") - accuracies).max()),
            "robust_accuracy": result.accuracies().values("linf").tolist(),
        }
        for name, result in found.items()
    }


def native(name: str, function: Function, x: Tensor, weights: Tensor) -> Callable[[], object]:
    """Return a function that goes forward and backward by the framework alone, on its own arrays."""
    if name == "jax":
        import jax

        def make_passes(x: Any, weights: Any) -> Any:
            logits, pullback = jax.vjp(function, x)
            return logits, pullback(weights)[0]

        compiled, at, by = (
            jax.jit(make_passes),
            jax.numpy.asarray(x.numpy()),
            jax.numpy.asarray(weights.numpy()),
        )
        return lambda: jax.block_until_ready(compiled(at, by))
    import tensorflow as tf

    @tf.function
    def graph(x: Any, weights: Any) -> Any:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(x)
            logits = function(x)
        return logits, tape.gradient(logits, x, weights)

    here, there = tf.constant(x.numpy()), tf.constant(weights.numpy())
    return lambda: graph(here, there)[1].numpy()


def bridge_passes(model: ra.Classifier, x: Tensor, weights: Tensor) -> Callable[[], object]:
    """Return a function that goes forward and backward as an attack does."""

    def passes() -> object:
        leaf = x.clone().requires_grad_()
        return torch.autograd.grad(model.logits(leaf), leaf, weights)

    return passes


def fastest(ways: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    for run in ways.values():
        run()
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, run in ways.items():
            begun = time.perf_counter()
            run()
            taken[name].append(time.perf_counter() - begun)
    return {name: min(seconds) for name, seconds in taken.items()}


def overhead(ways: Mapping[str, ra.Classifier], net: nn.Module, batch: int, rounds: int) -> dict[str, dict[str, float]]:
    x, weights = torch.rand(batch, 3, 32, 32), torch.randn(batch, 10)
    found = {}
    for name in ("jax", "tensorflow"):
        if name in ways:
            function = Framework(name).resnet(net)
            seconds = fastest(
                {"native": native(name, function, x, weights), "bridge": bridge_passes(ways[name], x, weights)}, rounds
            )
            found[name] = seconds | {"overhead_percent": 100 * (seconds["bridge"] / seconds["native"] - 1)}
    return found


def retraced(ways: Mapping[str, ra.Classifier], others: Mapping[str, Traced], shape: tuple[int, ...]) -> dict[str, int]:
    """Return how often functions are traced again by batches of any size, after those that they are compiled for."""

    def query_batches(model: ra.Classifier, sizes: tuple[int, ...]) -> None:
        for size in sizes:
            x = torch.rand(size, *shape)
            gradient(model, x, torch.zeros(size, dtype=torch.long))
            with torch.no_grad():
                model.logits(x)

    anew = {}
    for name, function in others.items():
        query_batches(ways[name], ways[name].batch_sizes)
        before = function.count
        query_batches(ways[name], (1, 3, 8, 9, 31, 100, 255, 300))
        anew[name] = function.count - before
    return anew


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--output", type=Path, help="JSON file")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    data, digits = ra.load_dataset("digits").take(arguments.samples), ra.load_model("builtin:digits-linf").net
    assert isinstance(digits, nn.Module)
    resnet, x, labels = fused_resnet(), torch.rand(32, 3, 32, 32), torch.randint(10, (32,))
    small, large = functions(digits, "digits"), functions(resnet, "resnet")
    ways, wide = models(digits, data.images, small), models(resnet, x, large)
    report: dict[str, Any] = {
        "pointwise": {
            "digits-linf": pointwise(ways, data.images, data.labels),
            "resnet20": pointwise(wide, x, labels),
        },
        "attacked": attacked(ways, data),
        "retraced": retraced(ways, small, (1, 8, 8)),
        "overhead": overhead(wide, resnet, arguments.batch, arguments.rounds),
        "samples": arguments.samples,
        "batch": arguments.batch,
        "machine": {
            "processor": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "threads_of_torch": torch.get_num_threads(),
            "versions": {name: str(import_module(name).__version__) for name in ("torch", *small)},
        },
    }
    report["pointwise"]["resnet20 in float64"] = compare_float64(resnet, x, labels)
    show(report)
    if arguments.output:
        arguments.output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def show(report: Mapping[str, Any]) -> None:
    table = Table("", "logits", "gradients", "equal sizes, %", "accuracy differs by", "traced anew", "overhead, %")
    for name, found in report["attacked"].items():
        if name != "torch":
            worst = [report["pointwise"][net][name] for net in ("digits-linf", "resnet20")]
            table.add_row(
                name,
                f"{max(one['logits'] for one in worst):.1e}",
                f"{max(one['gradients'] for one in worst):.1e}",
                f"{found['equal_sizes_percent']:.0f}",
                f"{found['accuracy_difference']:.1f}",
                str(report["retraced"].get(name, "")),
                f"{report['overhead'][name]['overhead_percent']:.1f}" if name in report["overhead"] else "",
            )
    Console().print(table)
    exact = Table("ResNet-20 in float64, beside torch", "logits", "gradients, median", "gradients, largest")
    for name, found in report["pointwise"]["resnet20 in float64"].items():
        exact.add_row(name, *(f"{found[key]:.1e}" for key in ("logits", "gradients", "gradients_largest")))
    Console().print(exact)


if __name__ == "__main__":
    main()
