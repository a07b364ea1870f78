"""What is read of a network is the network: other calls are refused in a sentence, or read with all they say."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._ops import OpOverload

import robustatlas as ra
from robustatlas.attacks.catalogue import attack_named
from robustatlas.certificates import Samples, Subject, certificate_named
from robustatlas.certificates.activations import Activation
from robustatlas.certificates.bounds import Bounds
from robustatlas.certificates.operations import LinearMap
from robustatlas.certificates.reading import _is_sample_by_sample
from robustatlas.certificates.readings import NOTHING, READERS, Call, NodeValue, arguments_of
from robustatlas.certificates.regions import NormBall

Forward = Callable[["_Net", Tensor], Tensor]


class _Net(nn.Module):
    """Two layers, run as ``call`` says."""

    def __init__(self, call: Forward) -> None:
        super().__init__()
        self.first, self.last, self.call = nn.Linear(16, 8), nn.Linear(8, 3), call
        self.register_buffer("count", torch.zeros(()))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        return self.call(self, x)

    def hidden(self, x: Tensor) -> Tensor:
        return self.first(x.flatten(1))

    def plain(self, x: Tensor) -> Tensor:
        return self.last(self.hidden(x).relu())

    def counted(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.plain(x) * (1 if self.calls < 40 else -1)

    def pooled(self, x: Tensor, **named: Any) -> Tensor:
        return self.last(F.avg_pool2d(self.hidden(x).view(-1, 2, 2, 2), 1, **named).flatten(1))


def _net(call: Forward, seed: int = 0) -> tuple[_Net, Tensor, Tensor]:
    torch.manual_seed(seed)
    net, x = _Net(call).eval(), torch.rand(6, 1, 4, 4)
    with torch.no_grad():
        return net, x, net.plain(x).argmax(1)


def _either(condition: Callable[[Tensor], bool]) -> Forward:
    return lambda net, x: net.plain(x) if condition(x) else -net.plain(x)


NOT_READ: dict[str, tuple[Forward, str]] = {
    "floor": (lambda net, x: net.plain(torch.div(x, 0.3, rounding_mode="floor")), "rounding_mode='floor'"),
    "trunc": (lambda net, x: net.plain(torch.div(x, 0.3, rounding_mode="trunc")), "rounding_mode='trunc'"),
    "beta": (lambda net, x: torch.addmm(net.last.bias, net.hidden(x), net.last.weight.T, beta=2), "beta=2"),
    "alpha": (lambda net, x: torch.addmm(net.last.bias, net.hidden(x), net.last.weight.T, alpha=2), "alpha=2"),
    "divisor": (lambda net, x: net.pooled(x, divisor_override=-1), "avg_pool2d"),
    "softplus": (lambda net, x: net.last(F.softplus(net.hidden(x), beta=-1)), "softplus"),
    "softplus with a jump": (
        lambda net, x: net.last(F.softplus(net.hidden(x), 1, 1.0)),
        "softplus with beta=.*threshold=1.0",
    ),
    "bicubic": (
        lambda net, x: net.plain(F.interpolate(x, scale_factor=2, mode="bicubic")[..., ::2, ::2]),
        "upsample_bicubic2d",
    ),
    "celu": (lambda net, x: net.last(F.celu(net.hidden(x), alpha=-1.0)), "celu"),
    "clamp by the input": (lambda net, x: net.plain(x).clamp(x.flatten(1)[:, :3]), "clamp"),
    "clamp number by number": (lambda net, x: net.plain(x).clamp(torch.tensor([0.0, 0.1, 0.2])), "clamp"),
    "hypernetwork": (lambda net, x: F.linear(net.plain(x), net.plain(x)), "linear|a column|1 column"),
    "half": (lambda net, x: net.plain(x).half().float(), "float16"),
    "double": (lambda net, x: net.plain(x.double().float()), "float64"),
    "mean of the batch": (lambda net, x: net.plain(x - x.mean(0, keepdim=True)), "across the samples"),
    "transposed batch": (
        lambda net, x: net.plain(torch.cat([x, x], 1).transpose(0, 1).transpose(0, 1)[:, :1]),
        "across the samples",
    ),
    "noise": (lambda net, x: net.plain(x + 0.1 * torch.randn(1, 1, 4, 4)), "draws random numbers"),
    "noise like": (lambda net, x: net.plain(x + 0.1 * torch.rand_like(x)), "draws random numbers"),
    "noise of no use": (lambda net, x: (torch.randn(3), net.plain(x))[1], "draws random numbers"),
    "dropout": (lambda net, x: net.plain(F.dropout(x, 0.1, True)), "draws random numbers"),
    "dropout of no use": (lambda net, x: (F.dropout(x, 0.1, True), net.plain(x))[1], "draws random numbers"),
    "counter": (lambda net, x: (net.count.add_(1), net.plain(x))[1], "changes its buffer 'net.count'"),
    "noise of Python": (lambda net, x: net.plain(x + float(torch.default_generator.seed() % 97) / 97), "differ by"),
    "compiling": (_either(lambda x: torch.compiler.is_compiling()), "differ by"),
    "exporting": (_either(lambda x: torch.compiler.is_exporting()), "differ by"),
    "no gradient": (_either(lambda x: not torch.is_grad_enabled()), "differ by"),
    "no gradient of the input": (_either(lambda x: not x.requires_grad), "differ by"),
    "one": (_either(lambda x: len(x) > 1), r"batches of 1\).*differ by"),
    "two": (_either(lambda x: len(x) == 2), "differ by"),
    "at most two": (_either(lambda x: len(x) < 3), r"batches of 3\).*differ by"),
    "at most a hundred": (_either(lambda x: len(x) <= 100), r"batches of 256\).*differ by"),
    "state": (lambda net, x: net.counted(x), "differ by"),
}


@pytest.mark.parametrize("name", NOT_READ)
def test_a_network_that_is_read_otherwise_than_it_runs_is_refused(name: str) -> None:
    call, said = NOT_READ[name]
    net, x, y = _net(call)
    with pytest.raises(ra.UserError, match=said):
        ra.certify(net, (x, y), "linf", method="interval", progress=False)


READ: dict[str, Forward] = {
    "flip": lambda net, x: net.plain(x.flip(2, 3)),
    "roll": lambda net, x: net.plain(x.roll((1, 2), (2, 3))),
    "repeat": lambda net, x: net.plain(x.repeat(1, 2, 1, 1)[:, 1:]),
    "index": lambda net, x: net.plain(x[:, :, [2, 1, 0, 3]]),
    "split": lambda net, x: net.plain(torch.cat(x.split(1, 2)[::-1], 2)),
    "chunk": lambda net, x: net.plain(torch.cat(x.chunk(2, 3), 2).view(-1, 1, 4, 4)),
    "stack": lambda net, x: net.plain(torch.stack([x[:, 0], x[:, 0] / 2], 1).mean(1)),
    "nearest": lambda net, x: net.plain(F.interpolate(x, scale_factor=2)[..., ::2, 1::2]),
    "nearest by odd factors": lambda net, x: net.plain(F.interpolate(x, size=(7, 11))[..., ::2, :4]),
    "bilinear": lambda net, x: net.plain(
        F.interpolate(x, scale_factor=1.7, mode="bilinear", align_corners=False)[..., :4, 1:5]
    ),
    "bilinear with corners": lambda net, x: net.plain(
        F.interpolate(x, size=(9, 5), mode="bilinear", align_corners=True)[..., 2:6, :4]
    ),
    "linear": lambda net, x: net.plain(F.interpolate(x.flatten(2), size=31, mode="linear")[..., ::2]),
    "pixel_shuffle": lambda net, x: net.plain(
        F.pixel_shuffle(torch.cat([x, x * 2, x / 2, 1 - x], 1), 2)[..., ::2, 1::2]
    ),
    "avg_pool1d": lambda net, x: net.plain(F.avg_pool1d(F.pad(x.flatten(2), (1, 1)), 3, 1)),
    "more channels": lambda net, x: net.plain(F.pad(x, (0, 0, 0, 0, 1, 1))[:, 1:2]),
    "reflect": lambda net, x: net.plain(F.pad(x, (1, 1, 2, 0), mode="reflect")[..., :4, :4]),
    "circular": lambda net, x: net.plain(F.pad(x, (1, 0, 0, 1), mode="circular")[..., :4, :4]),
    "conv_transpose": lambda net, x: net.plain(
        F.conv_transpose2d(x, net.first.weight[:1, :9].view(1, 1, 3, 3) * 3, net.last.bias[:1], 2, 1, 1)[..., ::2, 1::2]
    ),
    "softmax": lambda net, x: net.plain(x).softmax(1),
    "log_softmax": lambda net, x: net.plain(x).log_softmax(-1),
    "logarithm of softmax": lambda net, x: net.plain(x).softmax(1).log(),
    "like the input": lambda net, x: net.plain(x / (torch.ones_like(x) * 2)),
    "default softplus": lambda net, x: net.last(F.softplus(net.hidden(x))),
    "no rounding": lambda net, x: net.plain(torch.div(x, 0.3, rounding_mode=None)),
    "rsub": lambda net, x: net.plain(torch.rsub(x, 0.5, alpha=2.0)),
    "rsub of a tensor": lambda net, x: net.plain(torch.rsub(x, torch.full((4,), 0.5), alpha=2.0)),
    "add alpha": lambda net, x: net.plain(torch.add(x, 0.5, alpha=-3.0)),
    "alpha of x": lambda net, x: net.plain(torch.sub(torch.full((4, 4), 0.5), x, alpha=2)),
    "alpha of both": lambda net, x: net.last(torch.sub(net.hidden(x), net.hidden(x).relu(), alpha=2)),
    "dropout that is off": lambda net, x: net.plain(F.dropout(x, 0.5, False)),
    "dropout2d that is off": lambda net, x: net.plain(F.dropout2d(x, 0.5, False)),
    "alpha dropout that is off": lambda net, x: net.plain(F.alpha_dropout(x, 0.5, False)),
    "float": lambda net, x: net.plain(x).float(),
    "made on the way": lambda net, x: net.plain(x) @ torch.eye(3) + torch.arange(3) / 10,
    "edges of one number": lambda net, x: net.last(net.hidden(x).clamp(torch.tensor(0.1), torch.tensor([0.7]))),
    "positive divisor": lambda net, x: net.pooled(x, divisor_override=3),
    "in place": lambda net, x: net.plain(x.sub_(0.5).relu_()),
    "one sample is squeezed": lambda net, x: net.plain(x).squeeze(),
    "without gradient": lambda net, x: net.plain(x).detach(),
}


@pytest.mark.parametrize("name", READ)
def test_what_is_read_is_what_runs_and_holds(name: str) -> None:
    net, x, _ = _net(READ[name])
    with torch.no_grad():
        y = net(x.clone()).argmax(1)
    graph = Subject(ra.Classifier(net), (1, 4, 4)).network.graph
    read = graph.run(x) if graph.ending is None else graph.ending(graph.run(x))
    torch.testing.assert_close(read, net(x.clone()).double(), rtol=1e-5, atol=1e-6)
    sizes = torch.from_numpy(ra.certify(net, (x, y), "linf", progress=False).certified_size("linf"))
    reach = sizes.clamp_max(1).float().view(-1, 1, 1, 1)
    for _ in range(50):
        with torch.no_grad():
            moved = (x + reach * torch.randn_like(x).sign()).clamp(0, 1)
            assert ((net(moved).argmax(1) == y) | (sizes == 0)).all()


def test_what_is_refused_is_named_in_one_line_with_the_right_reason() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.last = nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.cell(x[:, 0])[0][:, -1])

    with pytest.raises(ra.UserError, match="lstm") as said:
        _ = Subject(ra.Classifier(Recurrent().eval()), (1, 4, 4)).network
    assert "random" not in str(said.value) and len(str(said.value).splitlines()) == 1


def test_a_first_relu_in_place_is_certified_as_another_one() -> None:
    torch.manual_seed(0)
    x, linear = torch.rand(4, 16), nn.Linear(16, 3)
    y = linear(x).argmax(1)
    found = [
        ra.certify(nn.Sequential(nn.ReLU(inplace=place), linear), (x, y), "linf", progress=False) for place in (0, 1)
    ]
    assert found[0].certified_size("linf").tolist() == found[1].certified_size("linf").tolist()
    assert (found[0].certified_size("linf") > 0).all()


@pytest.mark.parametrize("through", ["matrix_exp", "cayley", "householder", "spectral", "weight"])
def test_parametrised_weights_are_those_that_the_network_computes(through: str) -> None:
    torch.manual_seed(0)
    kinds, layer, x = nn.utils.parametrizations, nn.Linear(16, 8), torch.rand(4, 16)
    if through in ("spectral", "weight"):
        layer = kinds.spectral_norm(layer) if through == "spectral" else kinds.weight_norm(layer)
    else:
        layer = kinds.orthogonal(layer, orthogonal_map=through)
    last = nn.Linear(8, 3)
    net = nn.Sequential(layer, nn.ReLU(), last).eval()
    plain = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), last).eval()
    with torch.no_grad():
        plain[0].weight.copy_(layer.weight)
        plain[0].bias.copy_(layer.bias)
        y = net(x).argmax(1)
    sizes, known = (ra.certify(each, (x, y), "linf", progress=False).certified_size("linf") for each in (net, plain))
    assert sizes.tolist() == known.tolist()
    assert (sizes > 0).all()


class _Grey(nn.Module):
    """Three channels made of a grey one, by normalisation that repeats it, or by repeating it before."""

    def __init__(self, repeated: bool) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.repeated = repeated
        self.mean, self.std = torch.tensor([0.4, 0.5, 0.6]).view(3, 1, 1), torch.tensor([0.2, 0.3, 0.4]).view(3, 1, 1)
        self.convolution, self.last = nn.Conv2d(3, 4, 3), nn.Linear(4 * 9, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([x, x, x], 1) if self.repeated else x
        return self.last(self.convolution((x - self.mean) / self.std).relu().flatten(1))


@pytest.mark.parametrize("attack", ["linf", "l2", "l1", "brightness"])
def test_a_grey_image_normalised_by_three_channels_is_one_repeated(attack: str) -> None:
    net, other, x = _Grey(False).eval(), _Grey(True).eval(), torch.rand(4, 1, 5, 5)
    y = net(x).argmax(1)
    found, known = (ra.certify(each, (x, y), attack, progress=False).certified_size(attack) for each in (net, other))
    torch.testing.assert_close(torch.from_numpy(found), torch.from_numpy(known), rtol=1e-3, atol=0)
    assert (found > 0).all()


def test_rows_of_repeated_numbers_are_those_of_their_matrix() -> None:
    net = nn.Sequential(_Repeated(), nn.Flatten()).double().eval()
    network = Subject(ra.Classifier(net), (1, 2, 1)).network
    matrix = torch.stack([net(row.view(1, 1, 2, 1))[0] - net(torch.zeros(1, 1, 2, 1).double())[0] for row in _EYE]).T
    torch.testing.assert_close(network.row_norms(network.graph.output, 2.0)[0], matrix.norm(dim=1))


_EYE = torch.eye(2, dtype=torch.float64)


class _Repeated(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x * torch.tensor([[1.0, 2.0, 3.0]])) / torch.tensor([0.5, 0.25]).view(2, 1, 1)


def _sides(name: str) -> int:
    """The number of sides of the images that an operation takes."""
    return next((int(each) for each in name if each.isdigit()), 2)


def _given(name: str, argument: str) -> Iterator[Any]:
    """Values of an argument of an operation, the usual one last."""
    torch.manual_seed(0)
    sides = _sides(name)
    window = (3,) * sides
    matrix = name in ("matmul", "mm", "addmm")
    yield from {
        "shifts": [[1], [2]],
        "repeats": [[2, 1, 1, 1], [1, 2, 1, 3]],
        "indices": [[torch.tensor([1, 0])], [None, torch.tensor([2, 0, 0])]],
        "implicit": [True],
        "upscale_factor": [2],
        "downscale_factor": [2],
        "output_padding": [[1] * sides],
        "align_corners": [True, False],
        "scale_factors": [[1.7] * sides, None],
        **{f"scales{side}": [1.7, None] for side in ("", "_h", "_w")},
        "weight": [torch.randn(4, 2, *window)] if "conv" in name else [torch.randn(4)],
        "other": [torch.randn(4, 3)] if matrix else [torch.tensor(0.7), torch.rand(6) + 0.1, 0.7],
        "mat2": [torch.randn(4, 3)],
        "bias": [torch.randn(4)],
        "running_mean": [torch.randn(4)],
        "running_var": [torch.rand(4) + 0.1],
        "momentum": [0.3],
        "eps": [1e-3],
        "stride": [[2] * sides],
        "padding": [[1, 2] * sides] if "_pad" in name else ["same", [1] * sides],
        "dilation": [[2] * sides],
        "groups": [2],
        "alpha": [3.0, -2.0],
        "beta": [2.0, -1.0],
        "rounding_mode": ["floor", "trunc", None],
        "dtype": [torch.float32, torch.float64],
        "out_dtype": [torch.float32],
        "memory_format": [torch.contiguous_format],
        "size": [[2, 4, 6, 6], [-1, 4, 6, 6]] if name == "expand" else [[4, 72], [2, 144]],
        "shape": [[4, 72], [2, 144]],
        "sizes": [[2, 2]],
        "start_dim": [1],
        "end_dim": [2],
        "dim": [[0], [1]] if name in ("mean", "sum", "squeeze.dims") else [0, 1],
        "dims": [[0], [2]] if name in ("flip", "roll") else [[1, 0, 2, 3], [0, 2, 1, 3]],
        "dim0": [0, 1],
        "dim1": [2],
        "start": [1],
        "end": [3],
        "step": [2],
        "index": [torch.tensor([2, 0])] if name == "index_select" else [1],
        "keepdim": [True],
        "kernel_size": [[2] * sides],
        "ceil_mode": [True],
        "count_include_pad": [False],
        "divisor_override": [-3, 3],
        "output_size": [[9] * sides, [3] * sides],
        "pad": [[-1, 1], [1, 2], [1, 2, 1, 1]],
        "mode": ["reflect", "replicate", "circular"],
        "value": [0.5],
        "min_val": [0.5],
        "max_val": [0.3],
        "min": [torch.rand(4, 4), torch.tensor(0.1), 0.1],
        "max": [torch.rand(4, 4), torch.tensor(0.6), 0.6],
        "negative_slope": [-0.5, 2.0],
        "scale": [-1.0, 2.0],
        "input_scale": [-1.0, 0.5],
        "threshold": [-2.0, 1.0, 18.0],
        "approximate": ["tanh"],
        "p": [0.5],
        "train": [True, False],
        "layout": [torch.strided],
        "device": ["cpu"],
        "pin_memory": [False],
        "non_blocking": [True],
        "copy": [True],
    }[argument]


def _overloads() -> Iterator[tuple[str, OpOverload]]:
    for name in READERS:
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads():
            target = getattr(packet, overload)
            tensors = [each for each in target._schema.arguments if "Tensor" in str(each.type)]
            odd = ("list_Tensor", "out", "Dimname", "names", "prim_", "dtype_out")
            if tensors and not any(part in str(target._schema) for part in odd):
                yield f"{name}.{overload}", target


TARGETS = dict(_overloads())
NEVER_READ = {"conv1d.padding", "conv2d.padding", "conv3d.padding", "view.dtype", "mm.dtype", "addmm.dtype"}
NEVER_READ |= {"mean.default", "sum.default", "index.Tensor_hacked_twin"}  # across the batch


@pytest.mark.parametrize("which", TARGETS)
def test_a_reading_takes_every_argument_or_there_is_none(which: str) -> None:
    """Every operation that is read, with every argument away from its default, and every pair of those."""
    target, name = TARGETS[which], which.partition(".")[0]
    x = torch.randn(2, 4, *(6,) * _sides(name), dtype=torch.float64)
    x = x[:, :, 0, 0] if name in ("linear", "matmul", "mm", "addmm") else x
    first = {"addmm": "mat1"}.get(name, target._schema.arguments[0].name)
    usual: dict[str, Any] = {first: x} | ({"self": torch.randn(3)} if name == "addmm" else {})
    if name == "linear":
        usual["weight"] = torch.randn(3, 4)
    options: dict[str, list[Any]] = {}
    for argument in target._schema.arguments:
        if argument.name not in usual:
            values = [_double(each) for each in _given(which if which == "squeeze.dims" else name, argument.name)]
            if not argument.has_default_value():
                usual[argument.name] = values[-1]
            options[argument.name] = values
    if first == "tensors":
        usual["tensors"] = [x, x + 1]
    if "conv" in name:
        usual["weight"] = torch.randn(4, 4, *(3,) * (x.dim() - 2), dtype=torch.float64)
        options["weight"] = [torch.randn(4, 2, *(3,) * (x.dim() - 2), dtype=torch.float64)]
    usual = {key: _double(value) for key, value in usual.items()}
    run = [_read_rightly(name, target, usual)]
    for one, values in options.items():
        run += [_read_rightly(name, target, usual | {one: value}) for value in values]
        for two, others in options.items():
            run += [_read_rightly(name, target, usual | {one: a, two: b}) for a in values for b in others if one < two]
    assert "read" in run or which in NEVER_READ


def _double(value: Any) -> Any:
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


def _read_rightly(name: str, target: OpOverload, given: dict[str, Any]) -> str:
    """Whether a call is read; where it is, it must be what torch computes, number by number."""
    try:
        expected = target(**given)
    except (RuntimeError, TypeError, IndexError, ValueError, NotImplementedError):
        return "impossible"
    expected = expected[0] if isinstance(expected, tuple) else expected
    inputs = [each for each in (*given.values(), *given.get("tensors", ())) if isinstance(each, Tensor)]
    x = next(each for each in inputs if len(each) == 2 and each.dim() > 1)
    if expected.dtype != x.dtype or tuple(expected.shape[:1]) != (2,):
        return "refused"
    nodes = [each for each in inputs if each.shape == x.shape and len(each) == 2][: len(given.get("tensors", (1,)))]
    place = {id(each): NodeValue(k) for k, each in enumerate(nodes)}
    arguments = {
        key: [place[id(each)] for each in value] if key == "tensors" else place.get(id(value), value)
        for key, value in given.items()
    }
    shape, shapes = tuple(expected.shape[1:]), tuple(tuple(each.shape[1:]) for each in nodes)
    call = Call(target, arguments_of(target, (), arguments), shape, shapes, torch.float64)
    reader = READERS[name]
    operation = reader.read(call)
    if operation is None or reader.unhandled_argument(call):
        return "refused"
    if (
        isinstance(operation, LinearMap)
        and operation is not NOTHING
        and not _is_sample_by_sample(operation, shapes, shape)
    ):
        return "refused"
    found = operation.function(*nodes) if isinstance(operation, Activation) else operation.apply(*nodes)
    most = operation.error if isinstance(operation, Activation) else 0.0
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9 + most)
    return "read"


def _overflowing(kind: torch.dtype, big: float) -> tuple[nn.Module, Tensor, Tensor]:
    """A network that is always right in real numbers, and gives NaN where big^2 (x - 0.5) has no number of its kind."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.level = nn.Parameter(torch.tensor([0.5], dtype=kind))

        def forward(self, x: Tensor) -> Tensor:
            high = (x - self.level).relu() * big * big
            return torch.cat([high - high + 1, x - x], 1)

    x = torch.tensor([[0.2], [0.45], [0.3]])
    return Net().eval(), x, torch.tensor([0, 0, 0])


@pytest.mark.parametrize(("kind", "big"), [(torch.float16, 1e3), (torch.float32, 1e20), (torch.bfloat16, 1e20)])
def test_nothing_is_certified_beyond_where_numbers_overflow(kind: torch.dtype, big: float) -> None:
    net, x, y = _overflowing(kind, big)
    edge = 0.5 + torch.finfo(kind).max / big**2  # in real numbers
    assert net(torch.tensor([[min(1.0, edge + 0.05)]], dtype=kind)).isnan().any()
    for method in ("interval", "crown"):
        sizes = ra.certify(net, (x, y), "linf", method=method, progress=False).certified_size("linf")
        assert (x[:, 0].numpy() + sizes < edge + 1e-3).all(), method
        assert (x[:, 0].numpy() + sizes > 0.48).all(), method


def test_sums_without_a_bound_on_their_rounding_are_refused() -> None:
    net, x = nn.Sequential(nn.Flatten(), nn.Linear(400, 2)).to(torch.bfloat16), torch.rand(2, 400)
    with pytest.raises(ra.UserError, match=r"adds up 401 products in bfloat16.*net\.float\(\)"):
        ra.certify(net, (x, torch.tensor([0, 1])), "linf", progress=False)


def test_weights_that_are_no_numbers_get_the_sentence_of_evaluate() -> None:
    net, x = nn.Sequential(nn.Flatten(), nn.Linear(16, 2)), torch.rand(2, 1, 4, 4)
    net[1].weight.data[0, 0] = torch.nan
    said = []
    for call in (ra.evaluate, ra.certify):
        with pytest.raises(ra.UserError, match="NaN or infinite logits on clean samples") as error:
            call(net, (x, torch.tensor([0, 1])), "linf", progress=False)
        said.append(str(error.value))
    assert said[0] == said[1]


def test_windows_of_adaptive_pooling_are_counted_whole() -> None:
    net = nn.Sequential(nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(9, 2))
    (pooling,) = (
        node.operation
        for node in Subject(ra.Classifier(net), (1, 7, 7)).network.graph.nodes
        if isinstance(node.operation, LinearMap) and node.operation.terms
    )
    assert pooling.terms == 3 * 3 + 1


def test_sound_deep_networks_are_not_refused() -> None:
    torch.manual_seed(0)
    layers = [each for _ in range(20) for each in (nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())]
    net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * 36, 3)).eval()
    x = torch.rand(3, 4, 6, 6)
    sizes = ra.certify(net, (x, net(x).argmax(1)), "linf", method="interval", progress=False).certified_size("linf")
    assert (sizes >= 0).all()


def test_bounds_hold_in_alpha_of_either_side() -> None:
    net, x, _ = _net(lambda net, x: torch.rsub(net.plain(x), net.plain(x).relu(), alpha=2))
    network = Subject(ra.Classifier(net), (1, 4, 4)).network
    ball = NormBall(x.double(), torch.full((6,), 0.05).double(), torch.inf)
    bounds = Bounds(network, ball, backwards=True)
    for _ in range(50):
        logits = net((x + 0.05 * torch.randn_like(x).sign()).clamp(0, 1)).double()
        assert ((logits >= bounds.nodes[-1].low) & (logits <= bounds.nodes[-1].high)).all()


def test_smoothing_needs_no_reading() -> None:
    net, x, y = _net(NOT_READ["at most a hundred"][0])
    samples = Samples(x.double(), y, torch.arange(6))
    subject = Subject(ra.Classifier(net), (1, 4, 4))
    certificate_named("smoothing", draws=10, first=10).sizes(subject, attack_named("l2"), samples)
    assert subject.network_read is None
