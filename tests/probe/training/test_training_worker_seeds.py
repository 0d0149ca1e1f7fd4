"""Whether workers draw alike is read from code, without calling it."""

import argparse
import functools
import random

import numpy as np
import pytest

from labbook.probe.training.worker_seeds import has_identical_workers, seeds_alike, shared_generator

SEED = 7
ARGS = argparse.Namespace(seed=3)


def constant(worker_id):
    np.random.seed(0)


def of_the_module(_):
    random.seed(SEED)
    np.random.seed(SEED)


def of_the_arguments(worker):
    np.random.seed(ARGS.seed)


def closed_over(number):
    return lambda worker: np.random.seed(number)


class Starts:
    def start(self, worker):
        np.random.seed(5)

    def __call__(self, worker):
        np.random.seed(5)


@pytest.mark.parametrize("start", [constant, of_the_module, of_the_arguments, closed_over(4), Starts().start])
def test_seeds_that_ignore_the_worker(start):
    assert seeds_alike(start)


def with_the_worker(worker_id):
    np.random.seed(SEED + worker_id)


def of_the_framework(worker_id):
    seed = torch.initial_seed() % 2**32  # noqa: F821
    np.random.seed(seed)


def in_a_comprehension(worker):
    [np.random.seed(SEED + worker + one) for one in range(2)]


def from_the_system(worker):
    np.random.seed()


def no_seed(worker):
    np.set_printoptions(precision=4)


@pytest.mark.parametrize(
    "start",
    [
        with_the_worker,
        of_the_framework,
        in_a_comprehension,
        from_the_system,
        no_seed,
        print,
        functools.partial(constant),
        Starts(),
        None,
    ],
)
def test_others(start):
    assert not seeds_alike(start)


class Plain:
    def __getitem__(self, index):
        return index


class Noisy(Plain):
    def __getitem__(self, index):
        return index + np.random.normal()


class Kept(Plain):
    def __init__(self, transform):
        self.transform = transform


@pytest.mark.parametrize(
    ("start", "dataset", "alike"),
    [
        (constant, Plain(), False),
        (constant, Noisy(), True),
        (of_the_module, Kept(lambda x: x * random.uniform(0, 1)), True),
        (constant, Kept(lambda x: x * random.uniform(0, 1)), False),  # the loader seeds that in each worker
        (constant, Kept(abs), False),
    ],
)
def test_only_where_the_dataset_draws_from_what_is_seeded(start, dataset, alike):
    loader = argparse.Namespace(worker_init_fn=start, dataset=dataset)
    assert has_identical_workers(loader) is alike


class Drawing(Plain):
    def __init__(self, rng):
        self.rng = rng

    def __getitem__(self, index):
        return index + self.rng.normal(0, 1)


class MadeInTheWorker(Drawing):
    def __getitem__(self, index):
        self.rng = self.rng or np.random.default_rng(index)
        return self.rng.normal()


class Splitting(Drawing):
    def __init__(self, rng):
        super().__init__(rng)
        self.order = rng.permutation(4)

    def __getitem__(self, index):
        return self.order[index]


RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("dataset", "start", "name"),
    [
        (Drawing(RNG), None, "rng"),
        (Drawing(random.Random(1)), None, "rng"),
        (Drawing(np.random.RandomState(1)), None, "rng"),
        (Drawing(RNG), with_the_worker, ""),
        (Drawing(None), None, ""),
        (MadeInTheWorker(RNG), None, ""),
        (Splitting(RNG), None, ""),
        (Plain(), None, ""),
    ],
)
def test_a_generator_that_every_worker_copies(dataset, start, name):
    assert shared_generator(argparse.Namespace(worker_init_fn=start, dataset=dataset)) == name
