"""What a program does with the sum of the gradients of several micro-batches before a step."""

import pytest

from labbook.probe.training.discarded_gradients import DiscardedGradients


class Values:
    """Gradients of an optimizer as an inspector reads them."""

    def __init__(self):
        self.now = []

    def gradient_values(self, optimizer):
        return list(self.now)


@pytest.mark.parametrize(
    ("factors", "uses"),
    [
        ([0.125, 0.125, 0.125], ["rescaled", "reduced", "reduced"]),
        ([1.0, 1.0, 1.0], ["kept", "kept", "kept"]),
        ([0.5, 0.3, 0.4], ["rescaled", "rescaled", "rescaled"]),  # as clipping does
        ([0.9, 0.9, 0.9], ["rescaled", "rescaled", "rescaled"]),
        ([0.125, 1.0, 0.125], ["rescaled", "kept", "rescaled"]),
    ],
)
def test_a_factor_that_is_the_same_in_each_step_reduces_gradients(factors, uses):
    inspector, optimizer, found = Values(), object(), []
    gradients = DiscardedGradients(inspector)
    gradients.several = True
    for step, factor in enumerate(factors, 1):
        gradients.begin()
        for part in (1.0, 2.0):
            gradients.backward_begins(int(part) - 1, None)
            inspector.now = [step * part, -3.0 * part]
            gradients.backward_ended([optimizer])
        gradients._places = [("line", 1, None)] * 2
        inspector.now = [value * factor for value in inspector.now]
        found.append(gradients.result(optimizer, 2))
    assert found == uses
