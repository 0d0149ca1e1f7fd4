"""Facts about an outermost model."""

from labbook.probe.inspection.root_modules import RootModule, stochastic_modules


def test_a_container_in_training_mode_is_not_stochastic_while_its_modules_are_in_evaluation_mode():
    import torch

    backbone = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5))
    model = torch.nn.Sequential(backbone, torch.nn.Linear(4, 2))
    found = stochastic_modules(model.modules(), torch.nn.modules.batchnorm._BatchNorm)
    root = RootModule(model, 0, found, "")
    assert root.stochastic and root.has_stochastic_in(True) and root.has_stochastic_in(False)
    backbone.eval()
    assert root.training() and not root.has_stochastic_in(True)
    backbone[2].train()
    assert root.has_stochastic_in(True)
