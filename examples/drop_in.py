"""A script that was written for AutoAttack, with its import changed, and what more there is."""

import torch

import robustatlas as ra
from robustatlas.drop_in import AutoAttack  # was: from autoattack import AutoAttack

model = ra.load_model("builtin:digits-linf").net
data = ra.load_dataset("digits").take(12)
adversary = AutoAttack(model, norm="Linf", eps=0.1, version="custom", device="cpu")
adversary.attacks_to_run = ["apgd-ce", "fab"]
adversary.apgd.n_restarts = 2
adversary.apgd.n_iter = adversary.fab.n_iter = 10
with torch.no_grad():
    adv = adversary.run_standard_evaluation(data.images, data.labels, bs=12)

print(adversary.result)
