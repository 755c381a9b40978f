"""The control: nothing where membership was dealt at random, much where the sets differ otherwise."""

import numpy as np

from gossamer.attacks.control import separability
from gossamer.data.synthetic.glyphs import draw


def test_the_control_is_silent_where_membership_was_dealt() -> None:
    """8 deals with fixed seeds: an alarm comes in one of 40, so more than 2 would in about one trial of 1,000."""
    images = draw(200, seed=5).images
    found = []
    for seed in range(8):
        order = np.random.default_rng(seed).permutation(200)
        found.append(separability(images[order[:100]], images[order[100:]], seed=seed))
    assert sum(each.low > 0.5 for each in found) <= 2
    assert (
        0.42 < np.mean([each.value for each in found]) < 0.58
    )  # 8 figures of standard deviation 0.058: 4 of their mean's


def test_the_control_sees_another_pen() -> None:
    images = draw(300, seed=5).images
    others = np.maximum(images[150:], np.roll(images[150:], 1, axis=3))  # strokes one pixel wider
    found = separability(images[:150], others, seed=0)
    assert found.low > 0.6
    assert separability(images[:150], others, seed=0) == found
