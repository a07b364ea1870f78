"""Two classes: a network with two logits. One logit z counts as the two logits (0, z)."""

import torch
from torch import nn

import robustatlas as ra

torch.manual_seed(0)
net = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 1))
images = ra.load_dataset("digits").images[:20]
middle = net(images).median().item()

model = ra.Classifier(lambda x: torch.cat([torch.zeros(len(x), 1), net(x) - middle], 1), name="two classes")
labels = model.logits(images).argmax(1)  # what it says itself
print(ra.evaluate(model, (images, labels), ["linf", "l2"]))
