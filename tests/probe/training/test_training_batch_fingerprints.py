"""Epochs of which a part was not followed: their order is not reported, for it would differ from that of whole ones."""

from __future__ import annotations

from labbook.probe.training.batch_fingerprints import Batch, Windows


def found(windows, events, cut_at):
    """Runs 3 epochs of 8 batches in one order; the batches from `cut_at` on are seen only in part."""
    seen = 0
    for epoch in range(3):
        for at in range(8):
            seen += 1
            if seen == cut_at:
                windows.cut()
            if seen > cut_at and seen % 4:
                continue
            batch = Batch(0, epoch)
            batch.samples, batch.print = 4, f"print {at}"
            windows.add(batch, "train")
    windows.flush()
    return [event["prints"] for event in events]


def test_complete_epochs_are_recorded_in_order():
    events = []
    windows = Windows(lambda kind, **fields: events.append(fields), "torch")
    whole = [f"print {at}" for at in range(8)]
    assert found(windows, events, 1000) == [whole, whole, whole]


def test_no_order_is_recorded_for_an_incomplete_epoch():
    events = []
    windows = Windows(lambda kind, **fields: events.append(fields), "torch")
    whole = [f"print {at}" for at in range(8)]
    assert found(windows, events, 13) == [whole, [], []]
    assert [event["batches"] for event in events] == [8, 6, 2]


def test_results_of_the_first_epoch_are_preserved():
    events = []
    windows = Windows(lambda kind, **fields: events.append(fields), "torch")
    assert found(windows, events, 6)[0][:6] == [f"print {at}" for at in range(6)]


def test_a_forward_of_all_data_is_no_batch_of_hand_cut_ones():
    def recorded(sizes):
        events = []
        windows = Windows(lambda kind, **fields: events.append(fields), "torch")
        for at, size in enumerate(sizes):
            one = Batch(None, 0)
            one.samples, one.print = size, str(at)
            windows.add(one, "train")
        windows.flush()
        return events[0]["prints"]

    assert recorded([512, *[64] * 9, 40, 512]) == [str(at) for at in range(1, 11)]
    assert len(recorded([3, 9, 4, 9, 7])) == 5  # graphs of any size
