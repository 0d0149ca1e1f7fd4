from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from labbook.index.cjk import is_cjk, name_parts, normalize_text, segment, segment_phrase, split_scripts


def test_runs_of_characters_become_pairs_and_their_last_character():
    assert segment("损失变成 NaN").split() == ["损失", "失变", "变成", "成", "NaN"]
    assert segment("梯").split() == ["梯"]


def test_full_width_letters_are_plain_ones():
    assert normalize_text("ＮａＮ：１") == "NaN:1"


def test_text_without_cjk_characters_is_unchanged():
    assert segment("loss=0.1, naïve") == "loss=0.1, naïve"


def test_a_phrase_leaves_its_end_open():
    assert segment_phrase("变成") == ("变成", False)
    assert segment_phrase("变") == ("变", True)
    phrase, open_end = segment_phrase("损失 NaN")
    assert phrase.split() == ["损失", "失", "NaN"] and not open_end


def test_scripts_are_parted():
    assert split_scripts("loss变成NaN!") == ["loss", "变成", "NaN!"]


def test_names_are_parted_at_their_capitals():
    assert name_parts("OutOfMemoryError") == ["Out", "Of", "Memory", "Error"]
    assert name_parts("CUDAError") == ["CUDA", "Error"]
    assert name_parts("loss") == ["loss"]


@given(st.text(alphabet=st.sampled_from("损失变成梯度ab 。,"), max_size=30), st.data())
def test_every_part_of_a_run_is_a_phrase_of_it(text, data):
    """What stands side by side in the text is found as consecutive words of the index."""
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, len(text)))
    part = text[start:stop]
    if not is_cjk(part):  # words of letters are found whole only
        return
    words = segment(text).split()
    phrase, open_end = segment_phrase(part)
    wanted = phrase.split()

    def fits(at: int) -> bool:
        *exact, last = zip(wanted, words[at : at + len(wanted)], strict=True)
        return all(a == b for a, b in exact) and (last[1].startswith(last[0]) if open_end else last[0] == last[1])

    assert any(fits(at) for at in range(len(words) - len(wanted) + 1))
