"""What is read from a model when its optimizer makes the first step."""

from types import SimpleNamespace

from labbook.probe.inspection.model_lookup import dropout_rates


class Dropout(SimpleNamespace):
    pass


class DropPath(SimpleNamespace):
    pass


class Linear(SimpleNamespace):
    pass


def test_rates_of_dropout_are_read_and_nothing_else_is():
    shared = Dropout(p=0.5)
    inner = Linear(p=0.9, _modules={"drop": shared, "path": DropPath(drop_prob=0.2), "none": None})
    model = Linear(_modules={"inner": inner, "again": shared, "odd": Dropout(p="0.1"), "off": Dropout(p=0)})
    inner._modules["cycle"] = model

    assert dropout_rates(model, "_modules") == [0.0, 0.2, 0.5]
    assert dropout_rates(None, "_modules") == []
    assert dropout_rates(model, "_sub_layers") == []
