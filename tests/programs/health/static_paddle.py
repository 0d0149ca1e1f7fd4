"""Trainings in static graphs: `static_paddle.py PROGRAM [fixed]`."""

import sys

import numpy as np
import paddle
import paddle.nn.functional as F
from material import digits
from paddle import static


def trained(build, feed, rate, epochs=8, size=50):
    """Builds a program, and trains it on arrays that are fed by name."""
    paddle.enable_static()
    paddle.seed(3)
    inputs = {name: static.data(name, [None, *rows.shape[1:]], str(rows.dtype)) for name, rows in feed.items()}
    loss = build(**inputs)
    paddle.optimizer.Adam(rate).minimize(loss)
    executor = static.Executor(paddle.CPUPlace())
    executor.run(static.default_startup_program())
    count = len(next(iter(feed.values())))
    for _ in range(epochs):
        for begin in range(0, count, size):
            batch = {name: rows[begin : begin + size] for name, rows in feed.items()}
            (value,) = executor.run(feed=batch, fetch_list=[loss])
        print(float(value))


def squares():
    """Rows of six numbers and their sum of squares."""
    rows = np.random.default_rng(5).normal(size=(1000, 6)).astype("float32")
    return rows, ((rows**2).sum(1) - 6) / 4


def column_against_row(broken):
    """The outputs are a column and the targets a row."""
    rows, wanted = squares()

    def build(x, y):
        outputs = static.nn.fc(static.nn.fc(x, 32, activation="relu"), 1)
        return paddle.mean(F.square_error_cost(outputs, y))

    trained(build, {"x": rows, "y": wanted if broken else wanted[:, None]}, 5e-3)


def probabilities_as_scores(broken):
    """The last layer has a softmax, and so has the loss."""
    x, y = digits()

    def build(x, y):
        hidden = static.nn.fc(x, 48, activation="relu")
        scores = static.nn.fc(hidden, 10, activation="softmax" if broken else None)
        return paddle.mean(F.cross_entropy(scores, y))

    trained(build, {"x": x[:1000], "y": y[:1000, None]}, 3e-3)


def steps_as_large_as_weights(broken):
    """The rate of the optimizer is a thousand times too high."""
    rows, wanted = squares()

    def build(x, y):
        outputs = static.nn.fc(static.nn.fc(x, 32, activation="tanh"), 1)
        return paddle.mean(F.square_error_cost(outputs, y))

    trained(build, {"x": rows, "y": wanted[:, None]}, 2.0 if broken else 5e-3)


def steps_that_change_nothing(broken):
    """The rate is so low that the loss stays where guessing is."""
    x, y = digits()

    def build(x, y):
        return paddle.mean(F.cross_entropy(static.nn.fc(static.nn.fc(x, 48, activation="relu"), 10), y))

    trained(build, {"x": x[:1000], "y": y[:1000, None]}, 1e-7 if broken else 3e-3)


def initialized_in_each_epoch(broken):
    """The program that initializes the parameters runs inside the loop over epochs, or before each of three folds."""
    rows, wanted = squares()
    paddle.enable_static()
    paddle.seed(3)
    x, y = static.data("x", [None, 6]), static.data("y", [None, 1])
    loss = paddle.mean(F.square_error_cost(static.nn.fc(static.nn.fc(x, 32, activation="relu"), 1), y))
    paddle.optimizer.Adam(5e-3).minimize(loss)
    executor = static.Executor(paddle.CPUPlace())
    for _ in range(3):
        executor.run(static.default_startup_program())
        for epoch in range(5):
            if broken and epoch:
                executor.run(static.default_startup_program())
            for begin in range(0, 1000, 50):
                part = slice(begin, begin + 50)
                (value,) = executor.run(feed={"x": rows[part], "y": wanted[part, None]}, fetch_list=[loss])
            print(epoch, float(value))


def judged_by_a_late_copy(broken):
    """The program for the evaluation is copied after the optimizer was built into it."""
    rows, wanted = squares()
    paddle.enable_static()
    paddle.seed(3)
    x, y = static.data("x", [None, 6]), static.data("y", [None, 1])
    loss = paddle.mean(F.square_error_cost(static.nn.fc(static.nn.fc(x, 32, activation="relu"), 1), y))
    copy = None if broken else static.default_main_program().clone()
    paddle.optimizer.Adam(5e-3).minimize(loss)
    copy = copy or static.default_main_program().clone()
    executor = static.Executor(paddle.CPUPlace())
    executor.run(static.default_startup_program())
    for _ in range(8):
        for begin in range(0, 800, 50):
            part = slice(begin, begin + 50)
            (value,) = executor.run(feed={"x": rows[part], "y": wanted[part, None]}, fetch_list=[loss])
        executor.run(copy, feed={"x": rows[800:], "y": wanted[800:, None]}, fetch_list=[])
        print(float(value))


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2:] != ["fixed"])
