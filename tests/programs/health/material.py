"""Data for the small trainings in this folder: NumPy arrays, the same every time."""

import numpy as np


def standardised(x):
    return ((x - x.mean(0)) / (x.std(0) + 1e-8)).astype("float32")


def digits():
    """Digits of scikit-learn, (1797, 64) in [0, 1] and their classes."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return (x / 16.0).astype("float32"), y.astype("int64")


def wine():
    from sklearn.datasets import load_wine

    x, y = load_wine(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return x[order].astype("float32"), y[order].astype("int64")


def cancer():
    from sklearn.datasets import load_breast_cancer

    x, y = load_breast_cancer(return_X_y=True)
    return x.astype("float32"), y.astype("int64")


def diabetes():
    """Ten measurements and the progress of the disease, both standardised."""
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True)
    return standardised(x), standardised(y)


def blobs(rows, columns, classes, seed, spread=1.0):
    """Clouds around random centres."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, columns)) * 1.5
    y = rng.integers(0, classes, rows)
    return (centres[y] + rng.normal(size=(rows, columns)) * spread).astype("float32"), y.astype("int64")


def curve(rows, columns, seed, noise=0.1):
    """A smooth function of standardised inputs, with unit variance."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns)).astype("float32")
    a, b = rng.normal(size=(2, columns)) / columns**0.5
    y = np.sin(2 * x @ a) + x @ b
    return x, ((y - y.mean()) / y.std() + noise * rng.normal(size=rows)).astype("float32")


def pictures(rows, size, classes, seed, noise=1.2):
    """One blurred pattern a class and noise, (rows, 1, size, size), about standardised."""
    rng = np.random.default_rng(seed)
    patterns = np.kron(rng.normal(size=(classes, size // 2, size // 2)), np.ones((2, 2)))
    y = rng.integers(0, classes, rows)
    x = patterns[y] + noise * rng.normal(size=(rows, size, size))
    return x[:, None].astype("float32"), y.astype("int64")


def sentences(rows, length, words, seed):
    """Token ids from 1 on; the class tells which half of the vocabulary is more frequent."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, rows)
    low = rng.integers(1, words // 2, (rows, length))
    high = rng.integers(words // 2, words, (rows, length))
    from_high = rng.random((rows, length)) < np.where(y, 0.65, 0.35)[:, None]
    return np.where(from_high, high, low).astype("int64"), y.astype("int64")


def waves(rows, length, seed):
    """Noisy sines, (rows, length, 1), and the value that comes next."""
    rng = np.random.default_rng(seed)
    phase, pace = rng.uniform(0, 6.28, (rows, 1)), rng.uniform(0.2, 0.5, (rows, 1))
    t = np.arange(length + 1)
    x = np.sin(phase + pace * t) + 0.05 * rng.normal(size=(rows, length + 1))
    return x[:, :-1, None].astype("float32"), x[:, -1:].astype("float32")
