"""Inter-class distances against brute force, and what they report of broken data."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from robustatlas.common.errors import UserError
from robustatlas.metrics import interclass_distances

NORMS = {"linf": "chebyshev", "l2": "euclidean", "l1": "cityblock"}


def brute_force(images, labels, norm):
    """Distances [N] to the nearest point of another class that is not identical, from the whole matrix."""
    flat = np.asarray(images, np.float64).reshape(len(images), -1) / (255 if images.dtype == np.uint8 else 1)
    distances = cdist(flat, flat, NORMS[norm])
    distances[(np.asarray(labels)[:, None] == np.asarray(labels)[None, :]) | (distances == 0)] = np.inf
    return distances


def smooth_images(generator, count, shape):
    """Images with neighbouring pixels alike, as natural ones have, in uint8."""
    coarse = generator.uniform(size=(count, *(axis if axis <= 4 else -(-axis // 5) for axis in shape)))
    for axis, length in enumerate(shape, start=1):
        if length > 4:
            coarse = np.repeat(coarse, 5, axis=axis).take(np.arange(length), axis=axis)
    return np.clip(200 * coarse + generator.normal(0, 20, coarse.shape), 0, 255).astype(np.uint8)


def check(images, labels, norm):
    found = interclass_distances(images, labels, norm)
    expected = brute_force(images, labels, norm)
    np.testing.assert_allclose(found.per_sample, expected.min(axis=1), rtol=1e-12)
    np.testing.assert_allclose(expected[np.arange(len(images)), found.nearest], found.per_sample, rtol=1e-12)
    assert (found.smallest, found.largest) == (found.per_sample.min(), found.per_sample.max())


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("shape", [(3, 32, 32), (32, 32, 3), (28, 28), (784,), (7,)])
@pytest.mark.parametrize("kind", ["bytes", "float32", "float64"])
def test_brute_force_finds_the_same(norm, shape, kind):
    generator = np.random.default_rng(0)
    images = smooth_images(generator, 150, shape)
    if kind != "bytes":
        images = np.clip(images / 255 + generator.uniform(0, 1e-3, images.shape), 0, 1).astype(kind)
    check(images, generator.integers(0, 4, 150), norm)


@pytest.mark.parametrize("norm", NORMS)
def test_several_blocks_of_points(norm):
    """More points than are compared at once, and as many classes as points in a block."""
    generator = np.random.default_rng(1)
    images = smooth_images(generator, 1500, (2, 10, 10))
    check(images, generator.integers(0, 7, 1500), norm)
    check(images, (np.arange(1500) < 150).astype(int), norm)
    check(images[:1200], np.arange(1200) // 2, norm)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", ["bytes", "float64"])
def test_points_without_structure_or_with_many_ties(norm, kind):
    """Binary images, most of which are equally far."""
    generator = np.random.default_rng(2)
    images = (generator.uniform(size=(1300, 12, 12)) > 0.5).astype(np.uint8) * 255
    images = images if kind == "bytes" else images * 0.7 / 255
    check(images, generator.integers(0, 3, 1300), norm)


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from(sorted(NORMS)), st.integers(2, 12), st.integers(1, 3))
def test_small_grids_with_ties_and_duplicates(data, norm, count, length):
    grid = st.sampled_from([0, 85, 255])
    images = np.array(
        data.draw(st.lists(st.lists(grid, min_size=length, max_size=length), min_size=count, max_size=count)), np.uint8
    )
    labels = np.array(data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count)))
    if len(np.unique(labels)) < 2:
        return
    found = interclass_distances(images, labels, norm)
    np.testing.assert_allclose(found.per_sample, brute_force(images, labels, norm).min(axis=1), rtol=1e-12)
    expected = [
        [i, j]
        for i in range(count)
        for j in range(i + 1, count)
        if labels[i] != labels[j] and (images[i] == images[j]).all()
    ]
    assert found.duplicates.tolist() == expected


def test_nearly_identical_points_are_told_apart():
    generator = np.random.default_rng(3)
    images = generator.uniform(0.4, 0.6, (40, 3, 16, 16))
    images[1] = images[0] + 1e-9
    images[3] = images[2]
    labels = np.arange(40) % 2
    for norm in NORMS:
        found = interclass_distances(images, labels, norm)
        check(images, labels, norm)
        assert found.nearest[:2].tolist() == [1, 0]
        assert found.duplicates.tolist() == [[2, 3]]


def test_multiples_of_1_255_are_exact():
    generator = np.random.default_rng(4)
    images, labels = smooth_images(generator, 60, (3, 16, 16)), np.arange(60) % 3
    for norm in NORMS:
        exact = interclass_distances(images, labels, norm)
        floats = interclass_distances((images / np.float32(255)).astype(np.float32), labels, norm)
        np.testing.assert_array_equal(exact.per_sample, floats.per_sample)


def test_broken_images_are_reported():
    images = np.random.default_rng(0).uniform(size=(8, 3, 6, 6)).astype(np.float32)
    images[2, 0, 0, 0] = np.nan
    images[5] = 0.25
    found = interclass_distances(images, np.arange(8) % 2, "l2")
    assert (found.corrupted.tolist(), found.constant.tolist()) == ([2], [5])
    assert np.isnan(found.per_sample[2]) and found.nearest[2] == -1
    assert 2 not in found.nearest
    intact = np.delete(np.arange(8), 2)
    np.testing.assert_allclose(found.per_sample[intact], brute_force(images[intact], intact % 2, "l2").min(axis=1))
    assert found.distribution().samples == 7


def test_only_identical_images_of_another_class():
    found = interclass_distances(np.zeros((2, 4), np.uint8), [0, 1])
    assert found.duplicates.tolist() == [[0, 1]]
    assert np.isinf(found.per_sample).all() and found.nearest.tolist() == [-1, -1]


def test_progress_ends_at_one():
    shares = []
    interclass_distances(np.eye(4), np.arange(4), progress=shares.append)
    assert shares[-1] == 1 and shares == sorted(shares)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((3, 4)), [0, 1, 1], "l3"), "no norm 'l3'; the norms are linf, l2, l1"),
        ((np.zeros((3, 4)), [0, 1]), "One label for each of the 3 images"),
        ((np.zeros((3, 4)), [0.5, 1, 1]), "integers"),
        ((np.zeros((3, 4)), [1, 1, 1]), "at least two classes"),
        ((np.full((3, 4), 200.0), [0, 1, 1]), "between 200 and 200; floats in"),
        ((np.zeros(3), [0, 1, 1]), "Images .N, .... are expected"),
        ((np.array([["a"], ["b"]]), [0, 1]), "real numbers; given <U1"),
        ((np.zeros((2, 3), complex), [0, 1]), "real numbers; given complex128"),
        ((np.full((2, 3), np.nan), [0, 1]), "at least two classes"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(UserError, match=message):
        interclass_distances(*arguments)


@pytest.mark.parametrize("name", ["cifar10", "mnist"])
@pytest.mark.parametrize("norm", NORMS)
def test_real_images_as_brute_force(name, norm):
    file = Path(os.environ.get("ROBUSTATLAS_DATA", "")) / f"{name}_test.npz"
    if not file.is_file():
        pytest.skip("set ROBUSTATLAS_DATA to a folder with the test images")
    with np.load(file) as data:
        check(data["images"][:600], data["labels"][:600].reshape(-1), norm)
