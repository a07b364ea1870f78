"""Write src/robustatlas/data/digits.npz: scikit-learn's 8x8 digits with a fixed stratified split."""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

TARGET = Path(__file__).parents[1] / "src" / "robustatlas" / "datasets" / "digits.npz"
TEST_SAMPLES = 600


def main() -> None:
    """Write the file."""
    digits = load_digits()
    _, test = train_test_split(
        np.arange(len(digits.target)), test_size=TEST_SAMPLES, stratify=digits.target, random_state=0
    )
    is_test = np.isin(np.arange(len(digits.target)), test)
    np.savez_compressed(
        TARGET, images=digits.images.astype(np.uint8), labels=digits.target.astype(np.uint8), is_test=is_test
    )


if __name__ == "__main__":
    main()
