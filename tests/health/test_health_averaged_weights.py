"""Averages of weights that are evaluated: those that follow the training, and those near the first weights."""


def test_an_average_with_the_first_statistics_of_batch_norm(ask):
    for changed, stale, verdict in ((True, 9, "warn"), (False, 9, None), (True, 1, None)):
        one = {"type": "Net", "calls": 9, "steps": 9, "changed": changed, "stale_norms": stale}
        found = ask("averaged_weights_misused", signals={"loop": {"steps": 200, "copies": [one]}})
        assert (found and found.verdict) == verdict


def test_an_average_near_the_first_weights(ask):
    def asked(rows=((99, 0.01, 1.0), (190, 0.02, 0.999), (200, 0.03, 1.0)), **fields):
        one = {"type": "Net", "copy": True, "steps": 3, "rows": [list(row) for row in rows], **fields}
        return ask("averaged_weights_misused", signals={"loop": {"steps": 200, "evaluated_weights": [one]}})

    assert asked().verdict == "warn" and "went 3 % of the way" in str(asked().observed)
    assert asked(steps=150) is None, "a target network, or a teacher"
    assert asked(rows=((190, 0.6, 1.0), (200, 0.7, 1.0))) is None, "an average that follows"
    assert asked(rows=((190, 0.1, 0.7), (200, 0.1, 0.7))) is None, "an early snapshot"
    assert asked(rows=((200, 0.0, 0.0),)) is None, "the first weights, for comparison"
    assert asked(copy=False) is None, "the best weights are put into the trained model once"
    later = ((110, 0.01, 1.0), (150, 0.02, 1.0), (200, 0.03, 1.0))
    assert asked(rows=later, copy=False).verdict == "warn"
