"""Robust accuracy while a small network is trained in a loop of one's own, and the figure of it."""

import tempfile

import torch
from torch import nn

import robustatlas as ra

train = ra.load_dataset("digits", "train")
torch.manual_seed(0)
net = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.Adam(net.parameters(), 0.01)

with tempfile.TemporaryDirectory() as folder:
    strengths = {"linf": [0.05], "l2": [0.5]}
    look = ra.callbacks.watch(
        "digits", ["linf", "l2"], strengths=strengths, every=2, samples=16, share=None, folder=folder
    )
    for epoch in range(1, 5):
        for rows in torch.split(torch.randperm(len(train.labels)), 64):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(train.images[rows]), train.labels[rows])
            torch.autograd.backward(loss)
            optimizer.step()
        for name, percent in look(net, epoch).items():
            print(f"epoch {epoch}  {name:24} {percent:6.1f} %")
    print(look.plot())
