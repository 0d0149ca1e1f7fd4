"""Columns of a table in which missing values are marked by a number."""

from __future__ import annotations


def test_columns_with_a_mark_of_missing_values(ask):
    def looks(*marked):
        leaf = {"path": "0", "role": "input", "shape": [32, 8], "std": 1.0}
        rows = [
            {"step": i, "phase": "train", "samples": 32, "leaves": [{**leaf, "marked": m}]}
            for i, m in enumerate(marked)
        ]
        return {"batches": tuple(rows)}

    found = ask("missing_marks", signals=looks([2, 5], [2], [2]))
    assert found.verdict == "warn" and "column 2 " in found.observed
    assert ask("missing_marks", signals=looks([2], [2])) is None
    assert ask("missing_marks", signals=looks([2], [3], [])) is None


def test_rows_scaled_by_themselves(ask):
    def looks(*scaled):
        leaf = {"path": "0", "role": "input", "shape": [64, 5], "std": 1.0, "mean": 0.0, "max": 2.0, "min": -0.5}
        rows = [
            {"step": i, "phase": "train", "samples": 400, "leaves": [{**leaf, "rows_scaled": s}]}
            for i, s in enumerate(scaled)
        ]
        return {"batches": tuple(rows)}

    found = ask("input_not_normalised", signals=looks(True, True, True))
    assert found.verdict == "warn" and "5 columns" in found.observed
    assert ask("input_not_normalised", signals=looks(True, False, True)).verdict == "ok"
