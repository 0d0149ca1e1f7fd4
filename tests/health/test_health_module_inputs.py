"""Checks of what modules are given: ids of lookup tables, axes in another order."""

from order_of_tests import in_one_test


@in_one_test(
    ("ids", "rows", "verdict"),
    [
        ([[0, 0, 128]] * 3, 100, "warn"),
        ([[0, 0, 128], [0, 0, 128], [0, 5, 128]], 100, None),
        ([[0, 0, 128], [1, 1, 128], [0, 0, 128]], 100, None),  # one domain a batch
        ([[0, 0, 1]] * 30, 100, None),
        ([[0, 0, 128]] * 3, 2, None),  # segments of a text
    ],
)
def test_a_lookup_table_that_is_given_one_id(ask, ids, rows, verdict):
    table = {"i": 1, "name": "item", "type": "Embedding", "order": 0, "options": {"num_embeddings": rows}}
    looks = tuple({"step": n, "model": 0, "modules": [{"i": 1, "ids": look}]} for n, look in enumerate(ids))
    models = ({"model": 0, "modules": [table], "parameters": []},)
    found = ask("constant_feature", signals={"batches": ({"phase": "train"},), "models": models, "tensors": looks})
    assert (found.verdict if found else None) == verdict


def test_axes_that_are_reshaped(ask):
    conv = {"i": 1, "name": "conv", "type": "Conv1d", "order": 0, "input": [{"shape": [8, 6, 40]}]}
    for row, verdict in ((conv, None), ({**conv, "view_of": [8, 40, 6]}, "warn")):
        found = ask("reshaped_not_permuted", signals={"models": ({"model": 0, "modules": [row], "parameters": []},)})
        assert (found.verdict if found else None) == verdict
