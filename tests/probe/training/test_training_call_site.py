"""The loss is called what the program calls it."""

import pytest

from labbook.probe.training.call_site import _parse_backward_expression


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("loss_g.backward()", "loss_g"),
        ("self.loss_g.backward(retain_graph=True)", "loss_g"),
        ("scaler.scale(loss_g).backward()", "loss_g"),
        ("scaler.scale(loss_g / steps).backward()", "loss_g"),
        ("(loss_g / 4).backward()", "loss_g"),
        ("self.accelerator.backward(loss_g)", "loss_g"),
        ("torch.autograd.backward(loss_g)", "loss_g"),
        ("self.manual_backward(loss_g)", "loss_g"),
        ("loss_g.mean().backward()", "loss_g"),
        ("losses['mask'].backward()", "mask"),
        ("if step: loss_g.backward()", "loss_g"),
        ("(loss_a + loss_b).backward()", ""),
        ("criterion(model(x), y).backward()", ""),
        ("criterion(output).backward()", ""),
        ("self.criterion(output).backward()", ""),
        ("losses[0].backward()", ""),
        ("for loss in losses: a.backward(); b.backward()", ""),
        ("trainer.fit(model)", ""),
        ("if loss.backward() is None:", ""),
        ("", ""),
    ],
)
def test_the_name_of_what_backward_is_called_on(line, name):
    assert _parse_backward_expression(line) == name
