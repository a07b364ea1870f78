#!/bin/sh
# The tables of Dai et al. 2023 (MultiRobustBench): CR, SC and accuracies of defenses, and acc* to divide by.
# Days on a GPU as printed; `sh multirobustbench.sh small` is a look at the chain, on digits.
set -e
if [ "$1" = small ]; then
    robustatlas train digits-cnn --data digits --samples 300 --preset multirobustbench-linf --against linf=0.1 --epochs 2 --steps 2 --with batch_size=64 --with selection=last --with augmentation=none --keep 1 --out mrb/linf
    robustatlas evaluate trained:mrb/linf --data digits --attacks linf,l2 --strengths linf=0.1,0.2 --strengths l2=0.5,1 --samples 20 --run mrb/run
    robustatlas reference digits-cnn --data digits --strengths linf=0.1,0.2 --strengths l2=0.5,1 --epochs 1 --steps 2 --samples 20 --training-samples 300 --out mrb/acc
    robustatlas show mrb/run --reference mrb/acc/reference.json --trained-on linf=0.1
    exit
fi
# Networks of the table, and their weights every tenth epoch for CR and SC over the epochs (figures 5, 10 and 11).
robustatlas train resnet18 --data cifar10 --preset multirobustbench-linf --keep 10 --out mrb/linf
robustatlas train resnet18 --data cifar10 --preset multirobustbench-l2 --keep 10 --out mrb/l2
robustatlas train wrn-28-10 --data cifar10 --preset mng-ac --out mrb/mng-ac
# acc*: three trainings at each of 20 strengths, each attack as its own field trains it.
robustatlas reference resnet18 --data cifar10 --strengths linf=0.1:20 --strengths l2=2.5:20 --strengths l1=30:20 --strengths lpips=0.5:20 --strengths stadv=0.1:20 --strengths elastic=1:20 --seeds 3 --steps 20 --epochs 100 --with optimizer=sgd --with learning_rate=0.1 --with schedule=piecewise --with weight_decay=5e-4 --with augmentation=crop+flip --procedure paper --search bisection --out mrb/acc
robustatlas evaluate trained:mrb/linf --data cifar10 --attacks multirobustbench --procedure paper --run mrb/runs/linf
robustatlas evaluate trained:mrb/linf/epochs/0010 --data cifar10 --attacks multirobustbench --run mrb/runs/linf-0010
robustatlas show mrb/runs/linf --reference multirobustbench-cifar10 --trained-on linf=8/255
robustatlas leaderboard build mrb/runs/linf --reference multirobustbench-cifar10 -o mrb/site
