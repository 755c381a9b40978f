"""`gossamer evaluate --metrics` and `gossamer compare`: what is computed, kept, left out and shown."""

import functools
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gossamer.data.pixels.to_uint8 import resize
from gossamer.data.samples.samples import Samples
from gossamer.errors import DataWarning
from gossamer.intervals import proportion
from gossamer.methods.synthesizer import Synthesizer
from gossamer.metrics import classify
from gossamer.metrics.features import ClassifierFeatures
from gossamer.metrics.registry import METRICS, Inputs, figure
from gossamer.run import validation
from gossamer.run.evaluation import evaluate as running
from gossamer.run.report.wording import sentences, tables

Run = Callable[..., Any]
ALL = "accuracy,inception-score,fid,neighbours,mmd,per-class,nearest"


@pytest.fixture
def few_features(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """16 features in place of 1,024, so that 160 records are enough; counts the trainings."""
    trained: list[int] = []
    train = functools.partial(ClassifierFeatures.train, width=16, epochs=1)

    def counted(*args: Any, **named: Any) -> ClassifierFeatures:
        trained.append(1)
        return train(*args, **named)

    monkeypatch.setattr(ClassifierFeatures, "train", counted)
    return trained


@pytest.fixture(autouse=True)
def short_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """A classifier of one epoch in place of four: none of these tests asks what it learns."""
    monkeypatch.setitem(classify.PROTOCOLS, "reduced", classify.Protocol(epochs=1, limit=60))


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "run")
    return tmp_path / "run"


def evaluated(gossamer: Run, run: Path, data: Path, *words: object) -> dict[str, Any]:
    answer = gossamer(
        "evaluate", run, "--train", data, "--test", data, "-n", 80, "--protocol", "reduced", "--json", *words
    )
    assert answer.status == 0, answer.err
    return dict(answer.json)


def test_every_metric_at_once(gossamer: Run, run: Path, data: Path, few_features: list[int]) -> None:
    found = evaluated(gossamer, run, data, "--metrics", ALL)
    assert found["left_out"] == {}
    figures = {entry["metric"]: entry for entry in found["metrics"]}
    assert set(figures) >= {
        "accuracy", "accuracy of the real-data baseline", "Inception score", "Inception score of real test records",
        "classifier-FID", "classifier-FID of real training records", "precision", "recall", "density", "coverage", "MMD",
        "ambiguity", "class diversity",
        "samples of class 0 that look like it", "samples that copy a training record",
    }  # fmt: skip
    assert "FID" not in figures  # never printed for features of a classifier
    assert figures["classifier-FID of real training records"]["value"] == pytest.approx(0, abs=1e-4)  # the same records
    assert figures["classifier-FID"]["value"] > 1
    assert figures["samples that copy a training record"]["value"] == 0
    picture = run / "checkpoint" / "neighbours.png"
    assert picture.stat().st_mode & 0o077 == 0
    assert not (run / "neighbours.png").exists()
    page = (run / "report.html").read_text()
    assert "It is not the FID of the literature" in page
    assert "takes for what their label says" in page


def test_baselines_are_computed_once_and_stay_private(
    gossamer: Run, run: Path, data: Path, few_features: list[int], tmp_path: Path
) -> None:
    first = evaluated(gossamer, run, data, "--metrics", "accuracy,inception-score")
    kept = run / "checkpoint" / "baselines"
    assert kept.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in kept.iterdir())
    again = evaluated(gossamer, run, data, "--metrics", "accuracy,inception-score")
    assert again == first
    assert len(few_features) == 1
    assert gossamer("release", run, "-o", tmp_path / "out").status == 0
    released = {path.name for path in (tmp_path / "out").rglob("*")}
    assert not {path.name for path in kept.iterdir()} & released
    assert "baselines" not in released


def test_other_records_have_other_baselines(
    gossamer: Run, run: Path, data: Path, few_features: list[int], tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    evaluated(gossamer, run, data, "--metrics", "inception-score", "--cache", cache)
    with np.load(data) as held:
        np.savez(tmp_path / "other.npz", images=255 - held["images"], labels=held["labels"])
    evaluated(gossamer, run, tmp_path / "other.npz", "--metrics", "inception-score", "--cache", cache)
    assert len(few_features) == 2


def test_a_run_keeps_the_figures_of_earlier_evaluations(
    gossamer: Run, run: Path, data: Path, few_features: list[int]
) -> None:
    evaluated(gossamer, run, data, "--metrics", "inception-score")
    evaluated(gossamer, run, data, "--metrics", "accuracy")
    names = [entry["metric"] for entry in json.loads((run / "metrics.json").read_text())]
    assert names[0] == "Inception score"
    assert "accuracy" in names
    assert len(names) == len(set(names)) == 5


def test_the_public_records_have_a_row_while_they_can_be_read(
    gossamer: Run, fit_words: list[str], run: Path, data: Path, tmp_path: Path
) -> None:
    """What they teach by themselves, at epsilon 0, stands beside the release; where they are gone the row is left out."""
    name, file = "accuracy of the public records themselves", tmp_path / "public.npz"
    images = np.random.default_rng(3).integers(0, 256, (40, 1, 28, 28)).astype(np.uint8)
    np.savez(file, images=images, labels=np.arange(40) % 2)
    words = [str(tmp_path / "with") if word == str(run) else word for word in fit_words]
    assert gossamer(*words, "--public", file, "--warm-steps", 2).status == 0
    rows = {entry["metric"]: entry for entry in evaluated(gossamer, tmp_path / "with", data)["metrics"]}
    assert "public records as they are (epsilon 0)" in rows[name]["computed_on"]
    file.unlink()
    assert name not in {entry["metric"] for entry in evaluated(gossamer, tmp_path / "with", data)["metrics"]}
    assert name not in {entry["metric"] for entry in evaluated(gossamer, run, data)["metrics"]}


def test_what_does_not_apply_is_left_out_with_its_reason(gossamer: Run, run: Path, data: Path) -> None:
    """160 records cannot give a covariance of 1,024 features: alone that is an error, among others a note."""
    alone = gossamer("evaluate", run, "--train", data, "--test", data, "-n", 80, "--metrics", "fid")
    assert alone.status == 2
    assert "too few" in alone.err
    found = evaluated(gossamer, run, data, "--metrics", "fid,per-class")
    assert "too few" in found["left_out"]["fid"]
    assert {entry["metric"] for entry in found["metrics"]} >= {"ambiguity", "class diversity"}


@pytest.mark.parametrize(
    ("metrics", "says"),
    [
        ("accurracy", "Did you mean 'accuracy'"),
        ("fid,nonsense", "there is no metric 'nonsense'"),
        ("", "there is no metric"),
    ],
)
def test_an_unknown_metric_names_the_nearest(gossamer: Run, run: Path, data: Path, metrics: str, says: str) -> None:
    answer = gossamer("evaluate", run, "--train", data, "--test", data, "--metrics", metrics)
    assert answer.status == 2
    assert says in answer.err


def test_an_unconditional_release_has_no_accuracy_and_says_why(
    gossamer: Run, fit_words: list[str], data: Path, tmp_path: Path, few_features: list[int]
) -> None:
    words = [*fit_words, "--no-conditional"]
    words[1] = "dp-wgan"
    assert gossamer(*words).status == 0
    answer = gossamer("evaluate", tmp_path / "run", "--train", data, "--test", data, "-n", 80)
    assert answer.status == 2
    assert "carry no labels" in answer.err
    found = evaluated(gossamer, tmp_path / "run", data, "--metrics", "accuracy,per-class")
    assert "carry no labels" in found["left_out"]["accuracy"]
    assert not any("look like it" in entry["metric"] for entry in found["metrics"])


def test_a_file_of_samples_needs_no_run(
    gossamer: Run, run: Path, data: Path, tmp_path: Path, few_features: list[int]
) -> None:
    assert gossamer("sample", run, "-n", 80, "-o", tmp_path / "s.npz", "--seed", 3).status == 0
    found = evaluated(gossamer, tmp_path / "s.npz", data, "--metrics", "per-class", "-o", tmp_path / "m.json")
    assert json.loads((tmp_path / "m.json").read_text()) == found["metrics"]
    refused = gossamer("evaluate", tmp_path / "s.npz", "--train", data, "--test", data, "--metrics", "nearest")
    assert refused.status == 2
    assert "nearest needs a RUN" in refused.err


def entry(metric: str, value: float = 0.5) -> dict[str, Any]:
    return {
        "metric": metric,
        "value": value,
        "low": value - 0.1,
        "high": value + 0.1,
        "n": 9,
        "computed_on": "test",
        "internal": True,
    }


def test_words_of_shares_and_numbers() -> None:
    assert figure("coverage").share
    assert not figure("classifier-FID").share
    [coverage, fid] = sentences([entry("coverage"), entry("classifier-FID", 12.3456)])
    assert "50.0\u00a0%" in coverage["sentence"]
    assert "12.35 (12.25 to 12.45)" in fid["sentence"]
    assert coverage["bar"] is fid["bar"] is None


def test_a_table_of_classes() -> None:
    entries = [entry("samples of class 3 that look like it"), entry("accuracy")]
    (by_class,) = tables(entries)
    assert by_class["rows"] == [["3", "50.0\u00a0%", "40.0\u00a0% to 60.0\u00a0%"]]
    assert len(sentences(entries)) == 1


def test_compare_shows_runs_by_epsilon(
    gossamer: Run, run: Path, fit_words: list[str], data: Path, tmp_path: Path
) -> None:
    for folder, flag, value in (("free", "--epsilon", "inf"), ("strict", "--noise-multiplier", "8")):
        words = [*fit_words]
        at = words.index("--epsilon")
        words[at : at + 2] = flag, value
        words[words.index("--out") + 1] = str(tmp_path / folder)
        assert gossamer(*words).status == 0
    runs = [tmp_path / "free", run, tmp_path / "strict"]
    for each in runs:
        evaluated(gossamer, each, data)
    answer = gossamer("compare", *runs, "-o", tmp_path / "plot.png")
    assert answer.status == 0, answer.err
    rows = answer.out.splitlines()
    assert rows[0].split()[:4] == ["run", "method", "epsilon", "delta"]
    assert [row.split()[0] for row in rows[1:4]] == ["strict", "run", "free"]
    assert "infinity" in rows[3]
    assert (tmp_path / "plot.png").read_bytes()[:4] == b"\x89PNG"
    assert gossamer("compare", *runs, "-o", tmp_path / "plot.png").status == 2
    shown = gossamer("compare", *runs, "--json").json["runs"]
    assert [each["run"] for each in shown] == ["free", "run", "strict"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--metric", "acuracy"], "Did you mean 'accuracy'"),
        pytest.param(["-o", "plot.txt"], "a plot is a .png or .svg file", marks=pytest.mark.slow),
    ],
)
def test_what_compare_refuses(gossamer: Run, run: Path, data: Path, words: list[str], says: str) -> None:
    refused = gossamer("compare", run)
    assert refused.status == 2
    assert "has not been evaluated" in refused.err
    evaluated(gossamer, run, data)
    answer = gossamer("compare", run, *words)
    assert answer.status == 2
    assert says in answer.err
    assert not Path("plot.txt").exists()


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("precision", "Precision: "), ("recall", "Recall: "), ("coverage", "Coverage: "), ("density", "Density "),
        ("FID", "FID "), ("classifier-FID", "classifier-FID "), ("FID of real training records", "Its floor"),
        ("MMD", "Maximum mean discrepancy "),
        ("ambiguity", "Ambiguity "), ("class diversity", "Class diversity "), ("Inception score", "Inception score "),
        ("accuracy of the real-data baseline", "The same classifier trained on the real records"),
    ],
)  # fmt: skip
def test_a_figure_speaks_of_itself(name: str, begins: str) -> None:
    ((found),) = sentences([entry(name)])
    assert found["sentence"].startswith(begins)


@pytest.mark.parametrize("command", ["evaluate", "attack"])
def test_a_run_that_cannot_be_written_is_refused_before_the_work(
    gossamer: Run, run: Path, data: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides = {"evaluate": ("--train", "--test"), "attack": ("--members", "--nonmembers")}[command]
    monkeypatch.setattr(validation.os, "access", lambda path, how: how != os.W_OK or Path(path) != run)
    refused = gossamer(command, run, sides[0], data, sides[1], data, "-n", 100)
    assert refused.status == 2
    assert "cannot be written, and must hold the figures" in refused.err


def test_too_few_samples_are_called_samples(gossamer: Run, data: Path, tmp_path: Path, few_features: list[int]) -> None:
    with np.load(data) as held:
        np.savez(tmp_path / "few.npz", images=held["images"][:2], labels=held["labels"][:2])
    words = ["evaluate", tmp_path / "few.npz", "--train", data, "--test", data, "--metrics"]
    for metric, says in (
        ("fid", "samples: 2 pictures are too few"),
        ("neighbours", "samples: 2 are too few"),
        ("mmd", "samples: 2 are too few"),
        ("inception-score", "2 samples do not make 10 splits"),
    ):
        answer = gossamer(*words, metric)
        assert answer.status == 2
        assert says in answer.err, answer.err


def test_evaluate_reads_each_set_from_its_own_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    sets = {
        name: draw.integers(0, 256, (n, 1, 28, 28)).astype(np.uint8) for name, n in (("s", 20), ("a", 30), ("b", 40))
    }
    for name, images in sets.items():
        np.savez(tmp_path / f"{name}.npz", images=images, labels=np.arange(len(images)) % 3)
    seen: list[Inputs] = []
    monkeypatch.setattr(METRICS, "measured", lambda inputs, names: seen.append(inputs) or [])
    running.evaluate(tmp_path / "s.npz", train=str(tmp_path / "a.npz"), test=str(tmp_path / "b.npz"))
    assert isinstance(seen[0].samples, Samples)
    assert (seen[0].samples.images == sets["s"]).all()
    assert (seen[0].samples.labels == np.arange(20) % 3).all()
    assert (seen[0].real.images == sets["a"]).all()
    assert (seen[0].tests.images == sets["b"]).all()


@pytest.mark.parametrize("columns", [4, 3])
def test_soft_labels_of_a_file_of_samples_train_the_classifier(
    columns: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also where a class has soft labels and no record."""
    draw = np.random.default_rng(0)
    soft = draw.dirichlet(np.ones(columns), 20).astype(np.float32)
    for name, more in (("s", {"probabilities": soft}), ("a", {})):
        images = draw.integers(0, 256, (20, 1, 28, 28)).astype(np.uint8)
        np.savez(tmp_path / f"{name}.npz", images=images, labels=np.arange(20) % 3, **more)
    given: list[Any] = []
    monkeypatch.setattr(
        classify, "accuracy",
        lambda *_, classes, train_probabilities, **__: given.append((classes, train_probabilities)) or proportion(1, 2, ""),
    )  # fmt: skip
    data = str(tmp_path / "a.npz")
    running.evaluate(tmp_path / "s.npz", train=data, test=data, metrics="accuracy")
    (classes, of_samples), (_, of_real) = given
    assert classes == columns and np.array_equal(of_samples, soft) and of_real is None


@pytest.mark.parametrize(
    ("size", "compared", "said"),
    [((64, 64), (64, 64), ""), ((96, 48), (64, 32), "Pictures above 64 pixels are compared at 64x32.")],
)
def test_pictures_above_64_pixels_are_compared_at_64(
    gossamer: Run,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    size: tuple[int, int],
    compared: tuple[int, int],
    said: str,
) -> None:
    """`evaluate` of 3,000 scans of 256 pixels did not end within ten minutes, and took 7 GB."""
    draw = np.random.default_rng(0)
    images = {
        name: np.repeat(draw.integers(0, 256, (12, 1, 1, 1), np.uint8), size[0] * size[1]).reshape(12, 1, *size)
        for name in "sab"
    }
    for name, pictures in images.items():
        np.savez(tmp_path / f"{name}.npz", images=pictures, labels=np.arange(12) % 3)
    seen: list[Inputs] = []
    monkeypatch.setattr(METRICS, "measured", lambda inputs, names: seen.append(inputs) or [])
    answer = gossamer("evaluate", tmp_path / "s.npz", "--train", tmp_path / "a.npz", "--test", tmp_path / "b.npz")
    assert answer.status == 0, answer.err
    assert (said in answer.err, "are compared at" in answer.err) == (True, bool(said))
    for part, name in zip((seen[0].samples, seen[0].real, seen[0].tests), "sab", strict=True):
        assert part.shape == (1, *compared)
        assert (part.images == images[name][:, :, :1, :1]).all()  # a picture of one shade keeps it
        assert (part.labels == np.arange(12) % 3).all()


def test_samples_of_a_large_model_are_reduced_in_pieces(
    gossamer: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(0)
    np.savez(tmp_path / "large.npz", images=draw.integers(0, 256, (60, 1, 80, 80), np.uint8), labels=np.arange(60) % 2)
    assert gossamer("card", tmp_path / "large.npz", "-o", tmp_path / "card.toml").status == 0
    words = ["--data", tmp_path / "large.npz", "--card", tmp_path / "card.toml", "--epsilon", 10, "--delta", 1e-3]
    assert gossamer("fit", "moments", *words, "--axes", 8, "--out", tmp_path / "run").status == 0
    seen: list[Inputs] = []
    monkeypatch.setattr(METRICS, "measured", lambda inputs, names: seen.append(inputs) or [])
    large = str(tmp_path / "large.npz")
    with pytest.warns(DataWarning, match="above 64 pixels are compared at 64x64"):
        running.evaluate(tmp_path / "run", train=large, test=large, count=1_100)
    whole = Synthesizer.load(tmp_path / "run").sample(1_100, seed=0)
    assert seen[0].samples.shape == (1, 64, 64)
    assert (seen[0].samples.labels == whole.labels).all()
    assert (seen[0].samples.images == resize(whole.images, (1, 64, 64))).all()
