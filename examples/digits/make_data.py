"""Make `digits.npz` from scikit-learn's copy of the UCI handwritten digits.

    pip install 'relayvm[train]'
    python examples/digits/make_data.py

1797 images of 8 x 8 pixels with values 0 to 16, in the order of the data set, and the digit of each image.  No image is
left out.  README.md in this folder has the source and the licence.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

TARGET = Path(__file__).parent / "digits.npz"


def main() -> None:
    digits = load_digits()
    images, labels = digits.data.astype(np.uint8), digits.target.astype(np.uint8)
    if images.shape != (1797, 64) or images.max() != 16:
        raise SystemExit(f"this is not the data set expected: {images.shape}, values up to {images.max()}")
    np.savez_compressed(TARGET, images=images, labels=labels)
    print(f"{TARGET}: {len(images)} images, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
