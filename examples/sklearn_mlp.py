"""A perceptron of scikit-learn, as a network of torch."""

import torch
from sklearn.neural_network import MLPClassifier
from torch import Tensor

import robustatlas as ra

train, test = ra.load_dataset("digits", "train"), ra.load_dataset("digits")
perceptron = MLPClassifier((32,), max_iter=40, random_state=0).fit(train.images.flatten(1), train.labels)

layers = [torch.tensor(part, dtype=torch.float32) for part in (*perceptron.coefs_, *perceptron.intercepts_)]


def logits(x: Tensor) -> Tensor:
    return (x.flatten(1) @ layers[0] + layers[2]).relu() @ layers[1] + layers[3]


print(ra.evaluate(logits, test, ["linf", "l2"], samples=20))
