"""The papers that pages and docstrings name, by authors and year, and where to read them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple


class Paper(NamedTuple):
    title: str
    where: str


def _arxiv(title: str, number: str) -> Paper:
    return Paper(title, f"https://arxiv.org/abs/{number}")


PAPERS = {
    "Engstrom et al. 2019": _arxiv("Exploring the Landscape of Spatial Robustness", "1712.02779"),
    "Hendrycks et al. 2020": _arxiv(
        "AugMix: A Simple Data Processing Method to Improve Robustness and Uncertainty", "1912.02781"
    ),
    "Zhong et al. 2020": _arxiv("Random Erasing Data Augmentation", "1708.04896"),
    "Dhillon et al. 2018": _arxiv("Stochastic Activation Pruning for Robust Adversarial Defense", "1803.01442"),
    "He et al. 2019": _arxiv(
        "Parametric Noise Injection: Trainable Randomness to Improve Deep Neural Network Robustness against Adversarial Attack",
        "1811.09310",
    ),
    "Cohen et al. 2019": _arxiv("Certified Adversarial Robustness via Randomized Smoothing", "1902.02918"),
    "Moosavi-Dezfooli et al. 2016": _arxiv(
        "DeepFool: a simple and accurate method to fool deep neural networks", "1511.04599"
    ),
    "Sedghi et al. 2019": _arxiv("The Singular Values of Convolutional Layers", "1805.10408"),
    "Tsuzuku et al. 2018": _arxiv(
        "Lipschitz-Margin Training: Scalable Certification of Perturbation Invariance for Deep Neural Networks",
        "1802.04034",
    ),
    "Lee et al. 2019": _arxiv(
        "Defending Against Neural Network Model Stealing Attacks Using Deceptive Perturbations", "1806.00054"
    ),
    "Sen et al. 2020": _arxiv(
        "EMPIR: Ensembles of Mixed Precision Deep Networks for Increased Robustness against Adversarial Attacks",
        "2004.10162",
    ),
    "Zimmermann et al. 2022": _arxiv("Increasing Confidence in Adversarial Robustness Evaluations", "2206.13991"),
    "Brendel et al. 2019": _arxiv("Accurate, reliable and fast robustness evaluation", "1907.01003"),
    "Buckman et al. 2018": Paper(
        "Thermometer Encoding: One Hot Way To Resist Adversarial Examples", "https://openreview.net/forum?id=S18Su--CW"
    ),
    "Gowal et al. 2018": _arxiv(
        "On the Effectiveness of Interval Bound Propagation for Training Verifiably Robust Models", "1810.12715"
    ),
    "Papernot et al. 2016": _arxiv(
        "Distillation as a Defense to Adversarial Perturbations against Deep Neural Networks", "1511.04508"
    ),
    "Tramer et al. 2020": _arxiv("On Adaptive Attacks to Adversarial Example Defenses", "2002.08347"),
    "Xiao et al. 2020": _arxiv("Enhancing Adversarial Defense by k-Winners-Take-All", "1905.10510"),
    "Xu et al. 2021": _arxiv(
        "Fast and Complete: Enabling Complete Verification with Rapid and Massively Parallel Incomplete Verifiers",
        "2011.13824",
    ),
    "Yao et al. 2021": _arxiv("Automated Discovery of Adaptive Attacks on Adversarial Defenses", "2102.11860"),
    "Zhang et al. 2018": _arxiv(
        "Efficient Neural Network Robustness Certification with General Activation Functions", "1811.00866"
    ),
    "Zhang et al. 2020": _arxiv(
        "Towards Stable and Efficient Training of Verifiably Robust Neural Networks", "1906.06316"
    ),
    "Andriushchenko et al. 2020": _arxiv("Square Attack: a query-efficient black-box adversarial attack", "1912.00049"),
    "Athalye et al. 2018": _arxiv("Obfuscated Gradients Give a False Sense of Security", "1802.00420"),
    "Brown et al. 2017": _arxiv("Adversarial Patch", "1712.09665"),
    "Carlini and Wagner 2017": _arxiv("Towards Evaluating the Robustness of Neural Networks", "1608.04644"),
    "Carlini et al. 2019": _arxiv("On Evaluating Adversarial Robustness", "1902.06705"),
    "Chen et al. 2018": _arxiv(
        "EAD: Elastic-Net Attacks to Deep Neural Networks via Adversarial Examples", "1709.04114"
    ),
    "Chen et al. 2020": _arxiv("HopSkipJumpAttack: A Query-Efficient Decision-Based Attack", "1904.02144"),
    "Cinà et al. 2025": _arxiv("sigma-zero: Gradient-based Optimization of l0-norm Adversarial Examples", "2402.01879"),
    "Cinà et al. 2025b": _arxiv(
        "AttackBench: Evaluating Gradient-based Attacks for Adversarial Examples", "2404.19460"
    ),
    "Clopper and Pearson 1934": Paper(
        "The use of confidence or fiducial limits illustrated in the case of the binomial",
        "https://doi.org/10.1093/biomet/26.4.404",
    ),
    "Croce and Hein 2020": _arxiv(
        "Reliable evaluation of adversarial robustness with an ensemble of diverse parameter-free attacks", "2003.01690"
    ),
    "Croce and Hein 2020b": _arxiv(
        "Minimally distorted Adversarial Examples with a Fast Adaptive Boundary Attack", "1907.02044"
    ),
    "Croce and Hein 2021": _arxiv(
        "Mind the box: l1-APGD for sparse adversarial attacks on image classifiers", "2103.01208"
    ),
    "Croce and Hein 2022": _arxiv(
        "Adversarial Robustness against Multiple and Single lp-Threat Models via Quick Fine-Tuning of Robust Classifiers",
        "2105.12508",
    ),
    "Croce et al. 2019": _arxiv(
        "Provable Robustness of ReLU networks via Maximization of Linear Regions", "1810.07481"
    ),
    "Croce et al. 2021": _arxiv("RobustBench: a standardized adversarial robustness benchmark", "2010.09670"),
    "Dai et al. 2022": _arxiv("Formulating Robustness Against Unforeseen Attacks", "2204.13779"),
    "Dai et al. 2023": _arxiv("MultiRobustBench: Benchmarking Robustness Against Multiple Attacks", "2302.10980"),
    "Dziugaite et al. 2016": _arxiv("A study of the effect of JPG compression on adversarial images", "1608.00853"),
    "Göpfert et al. 2020": _arxiv("Adversarial Robustness Curves", "1908.00096"),
    "Guo et al. 2018": _arxiv("Countering Adversarial Images using Input Transformations", "1711.00117"),
    "Guo et al. 2024": _arxiv(
        "Exploring the Adversarial Frontier: Quantifying Robustness via Adversarial Hypervolume", "2403.05100"
    ),
    "He et al. 2016": _arxiv("Deep Residual Learning for Image Recognition", "1512.03385"),
    "He et al. 2016b": _arxiv("Identity Mappings in Deep Residual Networks", "1603.05027"),
    "Hendrycks and Dietterich 2019": _arxiv(
        "Benchmarking Neural Network Robustness to Common Corruptions and Perturbations", "1903.12261"
    ),
    "Hsiung et al. 2023": _arxiv(
        "Towards Compositional Adversarial Robustness: Generalizing Adversarial Training to Composite Semantic "
        "Perturbations",
        "2202.04235",
    ),
    "Izmailov et al. 2018": _arxiv("Averaging Weights Leads to Wider Optima and Better Generalization", "1803.05407"),
    "Jin and Rinard 2020": _arxiv("Manifold Regularization for Locally Stable Deep Neural Networks", "2003.04286"),
    "Kaufmann et al. 2023": _arxiv("Testing Robustness Against Unforeseen Adversaries", "1908.08016v4"),
    "Kang et al. 2019": _arxiv("Testing Robustness Against Unforeseen Adversaries", "1908.08016"),
    "Kim 2020": _arxiv("Torchattacks: A PyTorch Repository for Adversarial Attacks", "2010.01950"),
    "Kingma and Ba 2015": _arxiv("Adam: A Method for Stochastic Optimization", "1412.6980"),
    "Laidlaw and Feizi 2019": _arxiv("Functional Adversarial Attacks", "1906.00001"),
    "Laidlaw et al. 2021": _arxiv(
        "Perceptual Adversarial Robustness: Defense Against Unseen Threat Models", "2006.12655"
    ),
    "Madaan et al. 2021": _arxiv("Learning to Generate Noise for Multi-Attack Robustness", "2006.12135"),
    "Madry et al. 2018": _arxiv("Towards Deep Learning Models Resistant to Adversarial Attacks", "1706.06083"),
    "Maini et al. 2020": _arxiv(
        "Adversarial Robustness Against the Union of Multiple Perturbation Models", "1909.04068"
    ),
    "McNemar 1947": Paper(
        "Note on the sampling error of the difference between correlated proportions or percentages",
        "https://doi.org/10.1007/BF02295996",
    ),
    "Pang et al. 2021": _arxiv("Bag of Tricks for Adversarial Training", "2010.00467"),
    "Pintor et al. 2021": _arxiv(
        "Fast Minimum-norm Adversarial Attacks through Adaptive Norm Constraints", "2102.12827"
    ),
    "Pintor et al. 2022": _arxiv(
        "Indicators of Attack Failure: Debugging and Improving Optimization of Adversarial Examples", "2106.09947"
    ),
    "Rade and Moosavi-Dezfooli 2022": Paper(
        "Reducing Excessive Margin to Achieve a Better Accuracy vs. Robustness Trade-off",
        "https://openreview.net/forum?id=Azh9QBQ4tR7",
    ),
    "Radford et al. 2021": _arxiv(
        "Learning Transferable Visual Models From Natural Language Supervision", "2103.00020"
    ),
    "Rauber et al. 2020": Paper(
        "Foolbox Native: Fast adversarial attacks to benchmark the robustness of machine learning models",
        "https://doi.org/10.21105/joss.02607",
    ),
    "Rebuffi et al. 2021": _arxiv("Fixing Data Augmentation to Improve Adversarial Robustness", "2103.01946"),
    "Rice et al. 2020": _arxiv("Overfitting in adversarially robust deep learning", "2002.11569"),
    "Risse et al. 2021": _arxiv(
        "How to compare adversarial robustness of classifiers from a global perspective", "2004.10882"
    ),
    "Shin and Song 2017": Paper(
        "JPEG-resistant Adversarial Images",
        "https://machine-learning-and-security.github.io/papers/mlsec17_paper_54.pdf",
    ),
    "Szegedy et al. 2015": _arxiv("Going Deeper with Convolutions", "1409.4842"),
    "Tramèr and Boneh 2019": _arxiv("Adversarial Training and Robustness for Multiple Perturbations", "1904.13000"),
    "Tramèr et al. 2020": _arxiv("On Adaptive Attacks to Adversarial Example Defenses", "2002.08347"),
    "Wales and Doye 1997": _arxiv(
        "Global Optimization by Basin-Hopping and the Lowest Energy Structures of Lennard-Jones Clusters",
        "cond-mat/9803344",
    ),
    "Wang et al. 2020": Paper(
        "Improving Adversarial Robustness Requires Revisiting Misclassified Examples",
        "https://openreview.net/forum?id=rklOg6EFwS",
    ),
    "Wang et al. 2023": _arxiv("Better Diffusion Models Further Improve Adversarial Training", "2302.04638"),
    "Wong and Kolter 2018": _arxiv(
        "Provable defenses against adversarial examples via the convex outer adversarial polytope", "1711.00851"
    ),
    "Wong et al. 2020": _arxiv("Fast is better than free: Revisiting adversarial training", "2001.03994"),
    "Wu et al. 2020": _arxiv("Adversarial Weight Perturbation Helps Robust Generalization", "2004.05884"),
    "Xiao et al. 2018": _arxiv("Spatially Transformed Adversarial Examples", "1801.02612"),
    "Xu et al. 2018": _arxiv("Feature Squeezing: Detecting Adversarial Examples in Deep Neural Networks", "1704.01155"),
    "Yun et al. 2019": _arxiv(
        "CutMix: Regularization Strategy to Train Strong Classifiers with Localizable Features", "1905.04899"
    ),
    "Zagoruyko and Komodakis 2016": _arxiv("Wide Residual Networks", "1605.07146"),
    "Zhang et al. 2019": _arxiv("Theoretically Principled Trade-off between Robustness and Accuracy", "1901.08573"),
}
"""By authors and year; those that share both have a letter."""

NAMED = re.compile(r"\b[A-ZÀ-Þ][\w\-]+(?: et al\.?|(?:, [A-ZÀ-Þ][\w\-]+)* and [A-ZÀ-Þ][\w\-]+)? (?:\d{4}[a-z]?)\b")
"""What looks like a paper: authors, then a year."""
ET_AL = re.compile(r" et al\.? ")


def known(name: str) -> Paper | None:
    """The paper of that name."""
    return PAPERS.get(ET_AL.sub(" et al. ", " ".join(name.split())))


def cited(name: str) -> str:
    """A paper as Markdown: its name and its title, which is a link."""
    paper = PAPERS[name]
    return f"{name}, *[{paper.title}]({paper.where})*"


def named_in(text: str) -> Iterator[re.Match[str]]:
    """Where a text names papers; a month before a year is none."""
    for match in NAMED.finditer(text):
        if "et al" in match[0] or " and " in match[0] or known(match[0]):
            yield match
