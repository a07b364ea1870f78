#!/bin/sh
# The tables of the adversarial hypervolume: ascending training beside TRADES, and input transformations.
# Days on a GPU as printed; `sh hypervolume.sh small` is a look at the chain, on digits.
set -e
if [ "$1" = small ]; then
    robustatlas train digits-cnn --data digits --samples 300 --recipe ascending --against linf=0.15 --set points=replace --epochs 2 --steps 2 --out ah/ascending
    robustatlas evaluate trained:ah/ascending --data digits --attacks hypervolume --exclude l2 --strengths linf=0.15:5 --samples 10 --run ah/run
    robustatlas show ah/run
    exit
fi
robustatlas train resnet18 --data cifar10 --preset ah-ascending --extra generated.npz --ratio 0.7 --out ah/ascending
robustatlas train resnet18 --data cifar10 --preset ah-ascending --extra generated.npz --set ascending=false --out ah/fixed
robustatlas train resnet18 --data cifar10 --preset ah-ascending --out ah/no-generated
robustatlas evaluate trained:ah/ascending --data cifar10 --attacks hypervolume --run ah/runs/ascending
robustatlas evaluate transformed.py:jpeg --data cifar10 --attacks hypervolume-input-transformation --run ah/runs/jpeg
robustatlas compare ah/runs/ascending ah/runs/fixed
