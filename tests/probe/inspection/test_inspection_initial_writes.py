"""How often an initialiser wrote the same weights."""

from labbook.probe.inspection.model_table import InitialWrites


class Weight:
    pass


def test_a_scale_of_its_own_for_some_weights_is_no_repetition():
    writes, weight, nested = InitialWrites(None), Weight(), Weight()
    for deviation in (0.02, 0.02, 0.007):
        writes._take("normal_", (weight,), {"std": deviation})
        writes._take("normal_", (nested, 0.0, 0.02), {})
    assert writes.count_writes(weight) == {"normal_": 2}
    assert writes.count_writes(nested) == {"normal_": 3}
