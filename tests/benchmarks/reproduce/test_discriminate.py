"""The Jensen-Shannon score: both formulas against libraries, and a classifier that sees damage and only damage."""

import numpy as np
import pytest
from scipy import stats
from scipy.ndimage import gaussian_filter
from scipy.spatial.distance import jensenshannon

from benchmarks.reproduce.metrics import discriminate as module
from benchmarks.reproduce.metrics.discriminate import LARGEST, discriminate, divergence, symmetrised
from gossamer.data.synthetic.glyphs import draw
from gossamer.errors import DataError, RequestError

COIN = np.array([0.5, 0.5])
LOG_ODDS = np.array([-12.0, -3.0, -0.1, 0.0, 0.4, 2.0, 9.0])


def test_the_papers_formula_is_the_symmetrised_divergence():
    p = 1 / (1 + np.exp(-LOG_ODDS))
    expected = [(stats.entropy([q, 1 - q], COIN, base=2) + stats.entropy(COIN, [q, 1 - q], base=2)) / 2 for q in p]
    np.testing.assert_allclose(symmetrised(LOG_ODDS), expected, rtol=1e-9, atol=1e-15)
    assert symmetrised(np.array([0.0])) == 0
    assert np.isfinite(symmetrised(np.array([-900.0, 900.0]))).all(), "where p rounds to 0 or 1"


def test_the_codes_formula_is_the_divergence_with_the_mixture():
    p = 1 / (1 + np.exp(-LOG_ODDS))
    expected = [jensenshannon([q, 1 - q], COIN, base=2) ** 2 for q in p]
    np.testing.assert_allclose(divergence(LOG_ODDS), expected, rtol=1e-7, atol=1e-12)
    assert divergence(np.array([-900.0, 900.0])) == pytest.approx([LARGEST, LARGEST])
    assert pytest.approx(jensenshannon([1, 0], COIN, base=2) ** 2) == LARGEST


@pytest.fixture(scope="module")
def glyphs():
    """Real records and fresh samples of the same source."""
    return draw(600, size=12, seed=1).images, draw(600, size=12, seed=2).images


@pytest.fixture(scope="module")
def perfect(glyphs):
    records, fresh = glyphs
    return discriminate(fresh, records, epochs=3, seed=0)


def test_one_source_is_not_told_apart(perfect):
    """240 held-out pictures: fewer than 4 standard deviations from one half (error rate 6e-5)."""
    assert abs(perfect.accuracy.value - 0.5) < 4 * np.sqrt(0.25 / 240)
    assert perfect.jensen_shannon.value < LARGEST / 3
    assert (perfect.accuracy.n, perfect.jensen_shannon.n, perfect.jensen_shannon_paper.n) == (240, 120, 120)
    assert perfect.jensen_shannon.computed_on == (
        "120 samples held out; classifier of Zhang et al. trained on 480 samples and as many records"
    )
    assert perfect.accuracy.computed_on.startswith("120 samples and as many records held out")


@pytest.mark.parametrize("damage", ["noise", "blur"])
def test_damage_is_told_apart(glyphs, perfect, damage):
    records, fresh = glyphs
    if damage == "noise":
        noise = np.random.default_rng(0).normal(0, 60, size=fresh.shape)
        damaged = np.clip(fresh + noise, 0, 255).astype(np.uint8)
    else:
        damaged = gaussian_filter(fresh, (0, 0, 1.5, 1.5))
    hurt = discriminate(damaged, records, epochs=3, seed=0)
    assert hurt.accuracy.value > 0.9
    assert hurt.jensen_shannon.low > perfect.jensen_shannon.high
    assert hurt.jensen_shannon_paper.low > perfect.jensen_shannon_paper.high
    assert hurt.jensen_shannon.value <= LARGEST


def test_memorised_copies_are_not_told_apart(glyphs):
    """As the docstring says: not above one half, because the other copies of held-out ones were learnt as records.

    Fewer than 4 standard deviations above one half (error rate 3e-5).
    """
    records, _ = glyphs
    copies = discriminate(records, records, epochs=3, seed=0)
    assert copies.accuracy.value < 0.5 + 4 * np.sqrt(0.25 / 240)


def test_held_out_pictures_did_not_train(glyphs, monkeypatch):
    """As many records as samples train, drawn from all, with labels that say which is which; none of them is scored."""
    records, fresh = glyphs
    seen = {}

    def spy(images, labels, **settings):
        seen["train"] = (images, labels)
        return real(images, labels, **settings)

    def scored(net, images):
        seen.setdefault("scored", []).append(images)
        return np.full(len(images), -1.0)

    real = module.ClassifierFeatures.train
    monkeypatch.setattr(module.ClassifierFeatures, "train", spy)
    monkeypatch.setattr(module, "_log_odds", scored)
    found = discriminate(fresh[:100], records, epochs=1, held_out=0.3, seed=5)
    images, labels = seen["train"]
    assert labels.tolist() == [0] * 70 + [1] * 70
    samples, of_records = ({x.tobytes() for x in part} for part in (fresh[:100], records))
    trained = [x.tobytes() for x in images]
    assert set(trained[:70]) <= samples and set(trained[70:]) <= of_records
    score_s, score_r = ([x.tobytes() for x in part] for part in seen["scored"])
    assert (len(score_s), len(score_r)) == (30, 30)
    assert set(score_s) == samples - set(trained[:70])
    assert set(score_r) <= of_records - set(trained[70:])
    assert found.accuracy.value == 0.5, "all called samples: half of them are"
    assert found.jensen_shannon.value == pytest.approx(divergence(np.array([-1.0]))[0])


def test_seed_fixes_it(glyphs):
    records, fresh = glyphs
    one, same, other = (discriminate(fresh[:60], records[:60], epochs=1, seed=seed) for seed in (1, 1, 2))
    assert one == same != other


GOOD = np.zeros((24, 1, 8, 8), np.uint8)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"samples": GOOD.astype(float)}, "samples: an array of float64"),
        ({"records": GOOD[:19]}, "records: 19 pictures are too few"),
        ({"samples": np.zeros((24, 3, 8, 8), np.uint8)}, "samples: pictures of 8x8 with 3 channels, but records"),
    ],
)
def test_bad_input_is_named(change, message):
    with pytest.raises(DataError, match=message):
        discriminate(**{"samples": GOOD, "records": GOOD, **change}, seed=0)


@pytest.mark.parametrize("held_out", [0.0, 1.0])
def test_bad_share(held_out):
    with pytest.raises(RequestError, match="held_out"):
        discriminate(GOOD, GOOD, held_out=held_out, seed=0)


def test_constant_pictures_give_finite_figures():
    found = discriminate(GOOD, GOOD + 9, epochs=1, seed=0)
    for estimate in (found.jensen_shannon, found.jensen_shannon_paper, found.accuracy):
        assert np.isfinite([estimate.value, estimate.low, estimate.high]).all()
