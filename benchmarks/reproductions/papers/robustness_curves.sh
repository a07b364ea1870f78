#!/bin/sh
# The figures of the robustness curves (Risse et al. 2021): curves of networks of standard, adversarial and regularised training.
# Hours as printed; `sh robustness_curves.sh small` is a look at the chain, on digits.
set -e
if [ "$1" = small ]; then
    robustatlas train digits-cnn --data digits --samples 200 --recipe mmr --against linf=0.1,l1=2 --epochs 1 --set first=50 --set last=20 --with batch_size=32 --out rc/universal
    robustatlas evaluate trained:rc/universal --data digits --attacks linf,l2,l1 --search minimum --samples 10 --run rc/run
    robustatlas report rc/run -o rc/report.html
    exit
fi
robustatlas train small-cnn --data mnist --recipe standard --epochs 100 --with learning_rate=1e-3 --out rc/standard
robustatlas train small-cnn --data mnist --preset robustness-curves --out rc/adversarial
robustatlas train small-cnn --data mnist --recipe mmr --against linf=0.1 --epochs 100 --with learning_rate=1e-3 --out rc/mmr-linf
robustatlas train small-cnn --data mnist --recipe mmr --against linf=0.1,l1=1 --epochs 100 --with learning_rate=1e-3 --out rc/mmr-universal
robustatlas evaluate trained:rc/adversarial --data mnist --attacks linf,l2 --search minimum --run rc/runs/adversarial
robustatlas report rc/runs/adversarial rc/runs/standard -o rc/curves.html
