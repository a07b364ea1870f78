"""Code that runs before the examples of a page, and replacements that shorten long examples."""

PREAMBLES = {
    "data_and_models": """
import importlib.machinery, sys, types
try:
    import transformers
    config = transformers.ViTConfig(image_size=32, hidden_size=16, num_hidden_layers=1, num_attention_heads=2)
except ImportError:
    pass
import numpy as np, torch
import robustatlas as ra
from pathlib import Path
from safetensors.torch import save_file
from robustatlas.training import network_named
images, labels = np.zeros((4, 8, 8, 1), np.uint8), np.arange(4)
vision = types.ModuleType("torchvision")
vision.__spec__ = importlib.machinery.ModuleSpec("torchvision", None)
vision.models = types.SimpleNamespace(resnet18=lambda num_classes: network_named("resnet20", (3, 32, 32), num_classes))
sys.modules["torchvision"] = vision
save_file(vision.models.resnet18(10).state_dict(), "resnet.safetensors")
net = ra.load_model("builtin:digits-linf").net
first = np.random.default_rng(0).normal(size=(64, 10)).astype(np.float32)
second = first[:10]
forward = lambda x: x.flatten(1).numpy() @ first
vjp = lambda x, weights: (weights.numpy() @ first.T).reshape(x.shape)
classifier = types.SimpleNamespace(predict_proba=lambda x: np.full((len(x), 10), 0.1))
ask = lambda x: np.zeros(len(x), np.int64)
data = ra.load_dataset("digits")
photographs = torch.rand(1, 3, 64, 64), torch.tensor([0])
""",
    "defenses": """
import types
import numpy as np, torch
import robustatlas as ra
net = ra.load_model("builtin:digits-linf").net
abstaining = lambda x: torch.cat([net(x), torch.full((len(x), 1), 2.0)], 1)
detecting = lambda x: (net(x), -net(x).amax(1), -2.0)
quantise = lambda x: (31 * x).round() / 31
threshold = lambda x: (x > 0.5).float()
data = ra.load_dataset("digits").take(20)
""",
    "served": """
import torch
import robustatlas as ra
data, net = ra.load_dataset("digits"), ra.load_model("builtin:digits-linf").net
ask = lambda x: net(torch.tensor(x)).softmax(1).detach().numpy()
""",
    "training": """
import torch
import robustatlas as ra
train, net = ra.load_dataset("digits", "train"), ra.load_model("builtin:digits-standard").net
optimizer = torch.optim.SGD(net.parameters(), 0.1)
def train_one_epoch(net):
    torch.nn.functional.cross_entropy(net(train.images), train.labels).backward()
    optimizer.step()
log = lambda numbers: None
""",
    "extending": """
from robustatlas.attacks.search import SEARCHES, Schedule
SEARCHES["downwards"] = Schedule  # an installed package has given the name before
""",
    "coming_from": """
import robustatlas as ra
net = ra.load_model("builtin:digits-linf").net
data = ra.load_dataset("digits").take(6)
images, labels = data.images, data.labels
""",
    "paper_table": """
import pictures
from pathlib import Path
pictures.replace_cifar10(Path("data"))
""",
    "runs": """
import robustatlas as ra
model, data = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits")
for run in ("runs/a", "runs/grown"):
    ra.evaluate(model, data, ["linf"], strengths={"linf": [0.1, 0.2]}, samples=4, run=run, progress=False)
result = ra.load_result("runs/a")
""",
    "report": """
import robustatlas as ra
model, data = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits")
ra.evaluate(model, data, ["linf"], strengths={"linf": [0.1, 0.2]}, samples=4, run="runs/mine", progress=False)
result = ra.certify(model, data, "linf", samples=4, run="runs/mine", progress=False)
a = b = result
results, x, y = [a], [0, 1], [1, 0]
reference = ra.load_reference("multirobustbench-cifar10")
""",
    "threat_models": """
import torch
import robustatlas as ra
from robustatlas.threats.features import _backbone
from robustatlas.training import network_named
from safetensors.torch import save_file
save_file({f"features.{key}": value for key, value in _backbone("alexnet").state_dict().items()}, "alexnet.safetensors")
torch.save({f"features.{key}": value for key, value in _backbone("alexnet_cifar").state_dict().items()}, "alexnet_cifar.pt")
model = other = ra.Classifier(network_named("resnet20", (3, 32, 32), 10))
""",
}

SHORTER = {
    "training": {
        "epochs=60": "epochs=1",
        "steps=10": "steps=1",
        'ra.load_dataset("digits"), [': 'ra.load_dataset("digits").take(4), [',
    },
    "data_and_models": {
        "def resnet():": "def squeezed(bits):\n    return resnet()\n\n\ndef resnet():",
        'device="cuda"': 'device="cpu"',
    },
    "defenses": {
        "import foolbox\n": "import foolbox\nmodel = ra.Classifier(net)\n",
        'result = ra.evaluate(model, data, "linf")\nfound': "model, adversarial = ra.Classifier(net), 1 - data.images.numpy()\n"
        'result = ra.evaluate(model, data, "linf")\nfound',
    },
}
