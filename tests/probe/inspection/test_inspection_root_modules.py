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


def test_what_a_model_computes_on_access_is_not_asked_for():
    import torch

    asked = []

    class Configured(torch.nn.Linear):
        def __getattr__(self, name):
            asked.append(name)
            return super().__getattr__(name)

    recurrent = torch.nn.GRU(4, 4, num_layers=2, dropout=0.1)
    model = torch.nn.Sequential(Configured(4, 4), recurrent)
    asked.clear()
    assert stochastic_modules(model.modules(), torch.nn.modules.batchnorm._BatchNorm) == [recurrent] and not asked
