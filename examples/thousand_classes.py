"""A thousand classes, images of 3 x 64 x 64 as arrays, and a network that expects normalised images."""

import torch
from torch import nn

import robustatlas as ra

torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 8, 8, 8), nn.ReLU(), nn.Flatten(), nn.Linear(512, 1000))
images = torch.rand(12, 3, 64, 64)

model = ra.Classifier(net, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), name="thousand classes")
labels = model.logits(images).argmax(1)  # what it says itself
print(ra.evaluate(model, (images, labels), ["linf", "l2"]))
