"""Records: how many are processed at once."""

import pytest

from gossamer.data.records import at_once


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((1, 28, 28), 4_096), ((1, 64, 64), 4_096), ((3, 64, 64), 1_365), ((3, 512, 512), 21), ((3, 5_000, 5_000), 1)],
)
def test_blocks_are_of_64_mebibytes_and_of_one_picture_at_least(shape: tuple[int, int, int], expected: int) -> None:
    channels, height, width = shape
    assert at_once(shape, 4_096) == expected
    assert expected == 1 or 4 * channels * height * width * expected <= 1 << 26
