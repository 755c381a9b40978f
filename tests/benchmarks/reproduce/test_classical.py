"""The classical classifiers: they learn, they follow the paper's settings, and the averages count as they say."""

import sys
import types
import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.naive_bayes import BernoulliNB, GaussianNB

from benchmarks.reproduce.metrics import classical
from gossamer.errors import DataError
from gossamer.intervals import Estimate

FAST = ["gaussian naive bayes", "bernoulli naive bayes", "decision tree", "lda", "bagging"]
INSTALLED = [name for name in classical.NAMES if name != "xgboost"]


@pytest.fixture(autouse=True)
def without_xgboost(monkeypatch):
    """As where it is not installed; a None in sys.modules makes the import fail."""
    monkeypatch.setitem(sys.modules, "xgboost", None)


@pytest.fixture(scope="module")
def digits():
    """scikit-learn's digits at 8x8: 600 to train on, 397 to test on."""
    bunch = load_digits()
    images = (bunch.images * 15.9).astype(np.uint8)[:, None]
    labels = bunch.target.astype(np.int64)
    return images[:600], labels[:600], images[1400:], labels[1400:]


@pytest.fixture(scope="module")
def separable():
    """Four classes, each with its own bright quarter; 200 to train on, 60 to test on."""
    coins = np.random.default_rng(0)
    labels = coins.permutation(np.arange(260) % 4)
    images = coins.integers(0, 60, (260, 1, 4, 4)).astype(np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[0, label] += 150
    return images[:200], labels[:200], images[200:], labels[200:]


def accuracies(names, *arrays, **settings):
    """Those of some classifiers, so that a test takes no longer than it must."""
    every = classical.classifiers
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classical, "classifiers", lambda seed: {name: every(seed)[name] for name in names})
        return classical.classical_accuracies(*arrays, **settings)


def test_the_settings_are_the_papers():
    models = classical.classifiers(seed=3)
    assert list(models) == INSTALLED
    assert len(models) == 11
    for name, settings in {
        "logistic regression": {"solver": "lbfgs", "max_iter": 5000},
        "random forest": {"n_estimators": 100, "class_weight": "balanced"},
        "bernoulli naive bayes": {"binarize": 0.5},
        "linear svm": {"max_iter": 10_000, "tol": 1e-8, "loss": "hinge"},
        "decision tree": {"class_weight": "balanced", "criterion": "gini", "min_samples_leaf": 1},
        "lda": {"solver": "eigen", "shrinkage": 0.5},
        "adaboost": {"n_estimators": 100},
        "mlp": {"hidden_layer_sizes": (100,)},
        "bagging": {"max_samples": 0.1, "n_estimators": 20},
        "gradient boosting": {"subsample": 0.1, "n_estimators": 50},
    }.items():
        found = models[name].get_params()
        assert {key: found[key] for key in settings} == settings
        assert found.get("random_state", 3) == 3 or name in ("logistic regression", "gaussian naive bayes")
        assert found.get("n_jobs") in (None, 1)


def test_the_columns_that_lda_keeps_do_not_matter(digits):
    """The authors' n_components=9 is left out."""
    images, labels, tests, _ = (array.reshape(len(array), -1).squeeze() for array in digits)
    theirs = LinearDiscriminantAnalysis(solver="eigen", n_components=9, tol=1e-8, shrinkage=0.5).fit(images, labels)
    ours = classical.classifiers(0)["lda"].fit(images, labels)
    assert (theirs.predict(tests) == ours.predict(tests)).all()


def test_separable_classes_are_learnt_by_all(separable):
    seen = []
    found = classical.classical_accuracies(
        *separable, classes=4, seed=0, progress=lambda done, total, value: seen.append((done, total, value))
    )
    assert list(found) == INSTALLED
    assert all(one.value > 0.95 for name, one in found.items() if name != "adaboost"), found
    assert found["adaboost"].value > 0.45, "stumps without SAMME.R are weak, but better than the 0.25 of chance"
    assert [done for done, _, _ in seen] == list(range(1, 12))
    assert seen[-1] == (11, 11, found["gradient boosting"].value)


def test_values_against_scikit_learn_directly(digits):
    images, labels, test_images, test_labels = digits
    found = accuracies(FAST[:2], *digits, classes=10, seed=0)
    X, tests = (array.reshape(len(array), -1) / 255 for array in (images, test_images))
    for name, model in (("gaussian naive bayes", GaussianNB()), ("bernoulli naive bayes", BernoulliNB(binarize=0.5))):
        right = int((model.fit(X, labels).predict(tests) == test_labels).sum())
        assert found[name].value == pytest.approx(right / 397, abs=1 / 397), "float32 may turn a near tie"
        expected = stats.binomtest(round(found[name].value * 397), 397).proportion_ci(method="wilson")
        assert (found[name].low, found[name].high) == pytest.approx((expected.low, expected.high))
    assert found["gaussian naive bayes"].computed_on == (
        "397 real test records; gaussian naive bayes of GS-WGAN's list trained on 600 synthetic records"
    )


def test_flipped_labels_lower_accuracy(digits):
    images, labels, *tests = digits
    coins = np.random.default_rng(1)
    flipped = np.where(coins.random(600) < 0.8, coins.permutation(labels), labels)
    clean, dirty = (
        classical.average(accuracies(FAST, images, used, *tests, classes=10, seed=0)) for used in (labels, flipped)
    )
    assert clean.value > 0.75
    assert dirty.high < clean.low


def test_seed_and_limit(digits):
    def run(limit, seed):
        found = accuracies(["bagging"], *digits, classes=10, limit=limit, seed=seed)
        return found["bagging"]

    assert run(200, 4) == run(200, 4)
    assert len({run(200, seed).value for seed in range(4)}) > 1
    assert "trained on 200 of 600 synthetic records" in run(200, 4).computed_on
    assert "trained on 600 synthetic records" in run(10_000, 4).computed_on


def test_global_random_state_is_left(digits):
    before = np.random.get_state()[1].copy()
    accuracies(["decision tree", "bagging"], *digits, classes=10, limit=100, seed=0)
    assert (before == np.random.get_state()[1]).all()


def test_missing_class_is_no_obstacle(separable):
    """Samples of classes 1 and 3 only: the labels come back as they were, and the other two are got wrong."""
    images, labels, test_images, test_labels = separable
    kept = labels % 2 == 1
    found = accuracies(
        ["lda", "decision tree"], images[kept], labels[kept], test_images, test_labels, classes=4, seed=0
    )
    assert found["lda"].value == pytest.approx(np.mean(test_labels % 2 == 1), abs=0.02)


def test_iteration_limit_is_said_and_not_warned(digits):
    """The MLP stops at 200 passes on these; warnings are errors in this suite, and the filters come back."""
    filters = list(warnings.filters)
    found = accuracies(["mlp", "lda"], *digits, classes=10, limit=120, seed=0)
    assert found["mlp"].computed_on.endswith("; stopped at its iteration limit")
    assert found["lda"].computed_on.endswith("synthetic records")
    assert warnings.filters == filters


class FakeXGB:
    """Remembers its settings and the labels it was given; predicts the first."""

    def __init__(self, **settings):
        self.settings = settings

    def fit(self, pictures, labels):
        self.labels = labels
        return self

    def predict(self, pictures):
        return np.zeros(len(pictures), dtype=np.int64)


def test_xgboost_is_used_where_installed(monkeypatch, separable):
    """XGBoost refuses gaps in the labels, so it is given none."""
    monkeypatch.setitem(sys.modules, "xgboost", types.SimpleNamespace(XGBClassifier=FakeXGB))
    models = classical.classifiers(7)
    assert tuple(models) == classical.NAMES
    assert models["xgboost"].settings == {
        "n_estimators": 50, "colsample_bytree": 0.1, "n_jobs": 1, "random_state": 7,
    }  # fmt: skip
    monkeypatch.setattr(classical, "classifiers", lambda seed: models)
    images, labels, test_images, test_labels = separable
    kept = labels % 2 == 1
    found = accuracies(["xgboost"], images[kept], labels[kept], test_images, test_labels, classes=4, seed=0)
    assert sorted(np.unique(models["xgboost"].labels)) == [0, 1]
    assert found["xgboost"].value == np.mean(test_labels == 1)


A, B = Estimate(0.8, 0.7, 0.9, 50, "a"), Estimate(0.4, 0.3, 0.6, 50, "b")


def test_average_by_hand():
    found = classical.average({"lda": A, "mlp": B})
    assert (found.value, found.low, found.high, found.n) == (*(pytest.approx(x) for x in (0.6, 0.5, 0.75)), 50)
    assert "mean over 2 classifiers without logistic regression, random forest," in found.computed_on
    assert "xgboost" in found.computed_on
    assert "lda" not in found.computed_on


def test_average_names_nothing_where_nothing_is_missing():
    everything = dict.fromkeys((*classical.NAMES, "cnn"), A)
    assert classical.average(everything).computed_on == (
        "50 real test records; mean over 13 classifiers; widest interval over the test records"
    )


def test_average_covers_whatever_the_errors_have_in_common():
    """Four classifiers of accuracy 0.8 on 300 records, errors shared or not. Of 300 draws at least 269 inside."""
    coins = np.random.default_rng(2)
    for shared in (True, False):
        inside = 0
        for _ in range(300):
            right = coins.random((1 if shared else 4, 300)) < 0.8
            counts = np.broadcast_to(right.sum(axis=1), 4)
            ones = {str(k): classical.proportion(int(count), 300, "") for k, count in enumerate(counts)}
            found = classical.average(ones)
            inside += found.low <= 0.8 <= found.high
        assert inside >= 269


def test_calibrated_by_hand():
    weak = Estimate(0.2, 0.1, 0.3, 50, "c")
    found = classical.calibrated({"lda": A, "mlp": B, "adaboost": weak}, {"adaboost": A, "mlp": A, "lda": A})
    assert found.value == pytest.approx((1 + 0.5 + 0.25) / 3)
    assert found.low == pytest.approx((0.7 + 0.3 + 0.1) / 0.9 / 3)
    assert found.high == pytest.approx((0.9 + 0.6 + 0.3) / 0.7 / 3)
    assert "accuracy / accuracy when trained on real records, mean over 3 classifiers" in found.computed_on


def test_calibration_leaves_out_what_one_side_lacks_and_refuses_what_learns_nothing():
    assert classical.calibrated({"lda": A, "xgboost": B}, {"lda": A}).value == 1.0
    with pytest.raises(DataError, match="lda learns nothing from the real records"):
        classical.calibrated({"lda": A}, {"lda": Estimate(0.0, 0.0, 0.1, 50, "")})


GOOD = np.zeros((24, 1, 8, 8), np.uint8), np.arange(24) % 3


@pytest.mark.parametrize(
    "change, message",
    [
        ({"train_images": GOOD[0].astype(np.float32)}, r"train_images: an array of float32 .* must be uint8"),
        ({"train_labels": GOOD[1][:-1]}, r"train_labels: 23 labels for 24 pictures"),
        ({"test_labels": np.r_[GOOD[1][:-1], 3]}, r"test_labels: the label at index 23 is outside 0 to 2 \(1 such"),
        ({"test_images": np.zeros((24, 3, 8, 8), np.uint8)}, r"8x8 with 3 channels, but train_images .* 1 channel;"),
        ({"train_labels": GOOD[1] * 0}, r"24 training pictures of 1 classes"),
        ({"train_labels": np.r_[2, np.zeros(23, int)]}, r"two of each class"),
        (
            {"train_images": GOOD[0][:9], "train_labels": GOOD[1][:9]},
            r"9 training pictures of 3 classes; .* at least 20",
        ),
    ],
)
def test_bad_input_is_named(change, message):
    arrays = {"train_images": GOOD[0], "train_labels": GOOD[1], "test_images": GOOD[0], "test_labels": GOOD[1]}
    with pytest.raises(DataError, match=message):
        classical.classical_accuracies(**{**arrays, **change}, classes=3, seed=0)
