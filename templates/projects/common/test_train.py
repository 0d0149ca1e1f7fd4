"""The training learns, writes its checkpoint, and gives the same result for the same seed."""

from pathlib import Path

from data import make_spirals
from train import main


def test_the_training_learns_and_repeats(tmp_path):
    first = main(["--checkpoint", str(tmp_path / "first.pt")])
    again = main(["--checkpoint", str(tmp_path / "again.pt")])
    assert first["val_acc"] > 0.9
    assert first["val_acc"] == again["val_acc"] and first["val_loss"] == again["val_loss"]
    assert Path(tmp_path / "first.pt").stat().st_size > 0


def test_the_arms_have_the_same_number_of_points():
    points, labels = make_spirals(points=300, arms=3, noise=0.1, seed=1)
    assert len(points) == 300 and [labels.count(arm) for arm in range(3)] == [100, 100, 100]
