#!/bin/sh
# The tables of Kang et al. 2019 (UAR): calibrated strengths, ATA, UAR of networks trained against each attack, and joint training.
# Days on a GPU as printed; `sh uar.sh small` is a look at the chain, on digits.
set -e
if [ "$1" = small ]; then
    robustatlas reference digits-cnn --data digits --rule ata --strengths linf=.02,.05,.1,.15,.2,.3 --strengths l2=.1,.2,.4,.6,.8,1.2 --trained linf=0.1 --trained l2=0.5 --epochs 1 --steps 2 --samples 20 --training-samples 300 --out uar/ata
    robustatlas calibrate l2 --reference uar/ata/reference.json -o uar/l2.json
    robustatlas train digits-cnn --data digits --samples 300 --recipe uniform --against linf=0.2,l2=1 --epochs 1 --steps 2 --out uar/joint
    exit
fi
robustatlas reference resnet56 --data cifar10 --rule ata --procedure paper --strengths linf=1/255,2/255,4/255,8/255,16/255,32/255 --strengths elastic=.125,.25,.5,1,2,4,8,16 --epochs 200 --with optimizer=sgd --with learning_rate=0.1 --with schedule=step:100,150 --with weight_decay=1e-4 --with augmentation=crop+flip --out uar/ata
robustatlas calibrate elastic --reference uar/ata/reference.json -o uar/elastic.json
robustatlas train resnet56 --data cifar10 --preset uar-linf --out uar/linf
robustatlas train resnet56 --data cifar10 --preset uar-elastic --out uar/elastic
robustatlas train resnet56 --data cifar10 --preset uar-joint --epochs 200 --out uar/joint
robustatlas evaluate trained:uar/linf --data cifar10 --attacks uar-cifar10 --procedure paper --run uar/runs/linf
robustatlas compare uar/runs/linf uar/runs/elastic --reference uar-cifar10
