"""Networks from ONNX files: the numbers of ONNX Runtime, and the gradient of torch."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from helpers_core import digits_network
from robustatlas.common.errors import UserError
from test_frameworks import agree

onnx = pytest.importorskip("onnx")


def exported(net: nn.Module, x: Tensor, file: Path, *, fixed: bool = False) -> str:
    pytest.importorskip("onnxscript")
    dynamic = None if fixed else ({0: torch.export.Dim("batch")},)
    torch.onnx.export(net.eval(), (x,), file, dynamo=True, dynamic_shapes=dynamic, verbose=False)
    return f"onnx:{file}"


def test_onnx_is_torch(tmp_path: Path) -> None:
    source = exported(digits_network(), torch.rand(4, 1, 8, 8), tmp_path / "net.onnx")
    agree(ra.load_model(source))


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2, padding=1),
        nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=2), nn.SiLU(), nn.AvgPool2d(2, padding=1), nn.LeakyReLU(0.2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5), nn.LogSoftmax(1),
    )  # fmt: skip


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, stride=4)
        self.token, self.place = nn.Parameter(torch.randn(1, 1, 16)), nn.Parameter(torch.randn(1, 17, 16))
        self.block = nn.TransformerEncoderLayer(16, 2, 32, activation="gelu", batch_first=True, norm_first=True)
        self.head = nn.Linear(16, 7)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.place
        logits: Tensor = self.head(self.block(x)[:, 0])
        return logits


@pytest.mark.oracle
@pytest.mark.parametrize("build", [convolutional, Attention])
def test_onnx_runtime_and_torch_agree(tmp_path: Path, build: type) -> None:
    runtime = pytest.importorskip("onnxruntime")
    torch.manual_seed(0)
    net, x = build(), torch.rand(5, 3, 16, 16)
    model = ra.load_model(exported(net, x, tmp_path / "net.onnx"))
    session = runtime.InferenceSession(str(tmp_path / "net.onnx"))
    theirs = session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]
    np.testing.assert_allclose(model.logits(x).numpy(), theirs, atol=1e-5)
    x.requires_grad_()
    ours, expected = (torch.autograd.grad(z.square().sum(), x)[0] for z in (model.logits(x), net(x)))
    assert (ours - expected).norm() < 1e-4 * expected.norm()


def test_a_fixed_batch_and_what_is_refused(tmp_path: Path) -> None:
    model = ra.load_model(exported(nn.Linear(3, 2), torch.rand(4, 3), tmp_path / "fixed.onnx", fixed=True))
    assert model.batch_sizes == (4,)
    assert model.logits(torch.rand(6, 3)).shape == (6, 2)
    assert model.origin is not None
    assert model.origin.library == f"onnx {onnx.__version__}"
    assert model.identity().weights_sha256 is not None
    with pytest.raises(UserError, match="There is no file"):
        ra.load_model(f"onnx:{tmp_path / 'nothing.onnx'}")
    (tmp_path / "text.onnx").write_text("hello")
    with pytest.raises(UserError, match="cannot be read as ONNX"):
        ra.load_model(f"onnx:{tmp_path / 'text.onnx'}")
    shape = onnx.helper.make_tensor_value_info("x", 1, ["n", 3])
    result = onnx.helper.make_tensor_value_info("y", 1, ["n", 3])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Hardmax", ["x"], ["y"])], "g", [shape], [result])
    onnx.save(onnx.helper.make_model(graph), tmp_path / "odd.onnx")
    with pytest.raises(UserError, match="Hardmax"):
        ra.load_model(f"onnx:{tmp_path / 'odd.onnx'}")


def test_average_pooling_and_a_constant_shape_are_read_by_certificates(tmp_path: Path) -> None:
    draw, make, held = np.random.default_rng(0), onnx.helper.make_node, onnx.numpy_helper.from_array
    weights = {"w": (3, 1, 3, 3), "g": (27, 4), "b": (4,)}
    constants = [held(draw.normal(size=shape).astype(np.float32), name) for name, shape in weights.items()]
    nodes = [
        make("Conv", ["x", "w"], ["a"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        make("Relu", ["a"], ["r"]),
        make("AveragePool", ["r"], ["p"], kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1]),
        make("Reshape", ["p", "shape"], ["f"]),
        make("Gemm", ["f", "g", "b"], ["y"]),
    ]
    sides = (("x", ["N", 1, 6, 6]), ("y", ["N", 4]))
    given, returned = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in sides)
    constants.append(held(np.array([-1, 27], np.int64), "shape"))
    graph = onnx.helper.make_graph(nodes, "net", [given], [returned], constants)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)]), tmp_path / "net.onnx")
    model, x = ra.load_model(f"onnx:{tmp_path / 'net.onnx'}"), torch.rand(3, 1, 6, 6)
    with torch.no_grad():
        y = model.logits(x).argmax(1)
    assert (ra.certify(model, (x, y), "linf", progress=False).certified_size("linf") > 0).all()
