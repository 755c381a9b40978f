"""On which side of a public share a unit lies depends on that unit alone; and copies are found by pixels."""

import hashlib

import numpy as np
import pytest

from gossamer.data.fingerprint import SALT, made_public, share_a_picture, shared
from gossamer.data.records import Records
from gossamer.data.units import numbered

RNG = np.random.default_rng(0)
PICTURES = RNG.integers(0, 256, (600, 1, 5, 5), dtype=np.uint8)


def records(pictures: np.ndarray = PICTURES, ids: list[str] | None = None) -> Records:
    labels = np.zeros(len(pictures), np.int64)
    if ids is None:
        return Records(pictures, labels)
    units = numbered(ids, "own", str)
    return Records(pictures, labels, units.numbers, units.names)


def sides(held: Records, share: float = 0.3, salt: str = SALT) -> tuple[list[bytes], list[bytes]]:
    """The public and the private pictures, in their order."""
    public = made_public(held, share=share, salt=salt)
    parts = held.take(np.flatnonzero(public)), held.take(np.flatnonzero(~public))
    return [image.tobytes() for image in parts[0].images], [image.tobytes() for image in parts[1].images]


IDS = {
    "records": None,
    "writers": [f"writer {index // 3}" for index in range(600)],
    "some alone": ["" if index % 5 == 0 else f"writer {index // 3}" for index in range(600)],
}


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_removing_a_protected_unit_leaves_the_public_part_as_it_is(ids: list[str] | None) -> None:
    held = records(ids=ids)
    public, private = sides(held)
    gone = np.flatnonzero(~made_public(held, share=0.3, salt=SALT))
    for unit in gone[:: max(1, len(gone) // 20)]:
        without = np.arange(600) != unit if held.units is None else held.units != unit
        kept = np.flatnonzero(without)
        rest = records(PICTURES[kept], ids and [ids[index] for index in kept])
        assert rest.population == held.population - 1
        again, others = sides(rest)
        assert again == public
        assert len(others) == len(private) - (600 - len(kept))


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_positions_do_not_matter(ids: list[str] | None) -> None:
    order = np.random.default_rng(1).permutation(600)
    public, private = sides(records(ids=ids))
    again, others = sides(records(PICTURES[order], ids and [ids[index] for index in order]))
    assert (sorted(again), sorted(others)) == (sorted(public), sorted(private))


def test_the_rule_is_a_keyed_hash_of_the_id_or_of_the_pixels() -> None:
    """Written once more from its description, so that a run can be checked by others."""

    def below(identity: bytes, kind: bytes) -> bool:
        digest = hashlib.blake2b(identity, digest_size=8, key=b"gossamer public share 1", person=kind).digest()
        return int.from_bytes(digest, "big") < 0.3 * 2**64

    by_pixels = made_public(records(), share=0.3, salt=SALT)
    assert by_pixels.tolist() == [below(picture.tobytes(), b"record") for picture in PICTURES]
    held = records(PICTURES[:4], ["b", "a", "", "a"])  # units a, b, and the third record alone
    expected = [below(b"a", b"unit"), below(b"b", b"unit"), below(PICTURES[2].tobytes(), b"record")]
    assert made_public(held, share=0.3, salt=SALT).tolist() == expected


def test_a_share_is_that_share_and_a_larger_one_contains_it() -> None:
    """Of 20,000 people, within five standard deviations of a binomial count. The key is fixed: it never fails by chance."""
    held = Records(
        np.zeros((20_000, 1, 1, 1), np.uint8), np.zeros(20_000, int), np.arange(20_000), np.arange(20_000).astype(str)
    )
    small, large = (made_public(held, share=share, salt=SALT) for share in (0.02, 0.1))
    for public, share in ((small, 0.02), (large, 0.1)):
        assert abs(public.sum() - 20_000 * share) < 5 * np.sqrt(20_000 * share * (1 - share))
    assert large[small].all()
    other = made_public(held, share=0.1, salt="another key")
    assert abs(other[large].sum() - 0.1 * large.sum()) < 5 * np.sqrt(0.09 * large.sum())


def test_a_unit_lies_wholly_on_one_side_and_nobody_is_lost() -> None:
    ids = [f"writer {index % 100}" for index in range(600)]
    held = records(ids=ids)
    public, private = sides(held)
    assert sorted(public + private) == sorted(picture.tobytes() for picture in PICTURES)
    owner = {picture.tobytes(): name for picture, name in zip(PICTURES, ids, strict=True)}
    assert not {owner[picture] for picture in public} & {owner[picture] for picture in private}
    assert len(public) % 6 == len(private) % 6 == 0


def test_copies_of_a_picture_lie_on_one_side_whatever_their_labels() -> None:
    held = Records(PICTURES[[0, 1, 0, 1]], np.array([0, 0, 1, 1]))
    public = made_public(held, share=0.5, salt=SALT)
    assert public[:2].tolist() == public[2:].tolist()


def test_units_without_names_are_refused() -> None:
    with pytest.raises(ValueError, match="no identity"):
        made_public(Records(PICTURES[:2], np.zeros(2, int), np.array([0, 1])), share=0.5, salt=SALT)


def test_a_picture_in_both_sets_is_found_and_nothing_else_is_told() -> None:
    here, there = records(PICTURES[:300]), records(PICTURES[300:])
    assert share_a_picture(here, there) is False
    one_more = Records(np.concatenate([there.images, PICTURES[7:8]]), np.full(301, 9))
    assert share_a_picture(here, one_more) is True, "the label does not matter"
    close = one_more.images.copy()
    close[-1, 0, 0, 0] ^= 1
    assert share_a_picture(here, Records(close, one_more.labels)) is False
    assert share_a_picture(here[:0], there) is False


def test_shared_says_which() -> None:
    """In the order of the first, whatever the label, however often."""
    here = records(PICTURES[[1, 5, 7, 5, 9]])
    there = Records(PICTURES[[5, 9, 9, 100]], np.full(4, 9))
    assert shared(here, there).tolist() == [False, True, False, True, True]
    assert shared(here[:0], there).shape == (0,)
    assert not shared(here, there.take(np.arange(0))).any()
