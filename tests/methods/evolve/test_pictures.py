"""Private Evolution over public pictures: who votes for what, which pictures leave with which labels, and what is refused."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from gossamer import plugins
from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.data.source import Source
from gossamer.errors import GossamerError, RequestError
from gossamer.events import silent
from gossamer.methods import METHODS
from gossamer.methods.evolve import PARTS, Config, clusters_of
from gossamer.methods.evolve.pictures import VotedPictures
from gossamer.methods.job import Job
from gossamer.methods.synthesizer import Synthesizer, model_bytes
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng
from gossamer.run.release.release import release
from gossamer.run.release.verify import verify
from gossamer.run.training.fit import fit
from gossamer.run.training.progress import Process
from gossamer.testing import checks
from gossamer.testing.trial_run import Subject

SHAPE = (1, 12, 12)
CARD = DataCard(shape=SHAPE, classes=2, declared_size=40)
SETTINGS: dict[str, Any] = {"drawing": "pictures", "encoder": "sides", "clusters": 4}
BUDGET: dict[str, Any] = {"delta": 1e-3, "process": Process(progress=False), **SETTINGS}


def records(n: int, seed: int = 0, brightest: int = 200) -> Records:
    """Pictures that are bright on the left, class 0, or on the right."""
    coins, labels = np.random.default_rng(seed), np.arange(n) % 2
    images = coins.integers(0, 40, (n, *SHAPE))
    images[labels == 0, :, :, :6] += brightest
    images[labels == 1, :, :, 6:] += brightest
    return Records(images.astype(np.uint8), labels.astype(np.int64))


def sides(batch: torch.Tensor) -> torch.Tensor:
    """How bright each side is, one after the other."""
    return batch.float().view(len(batch), 12, 2, 6).mean((1, 3))


@pytest.fixture(autouse=True)
def named() -> Iterator[None]:
    plugins.add("encoder", "sides", sides)
    yield
    plugins.remove("encoder", "sides")


def trained(public: Records, private: Records | None = None, **settings: Any) -> Any:
    job = Job.of(METHODS["evolve"], {"noise_multiplier": 0.5, **SETTINGS, **settings}, CARD)
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5)
    ledger.reserve(job.plan)
    made = job.begin(Rng(0, noise_seed=1))
    for _ in made.drive(Confined(records(40) if private is None else private, ledger, made.run.rng), public):
        pass
    assert ledger.unused == [0]
    return made


# ------------------------------------------------------------------ votes


def test_pictures_have_the_labels_of_the_records_that_look_like_them() -> None:
    """Whatever labels they came with. Half of the records of each side have one label, and all of the other side the other."""
    public = records(30, seed=5)
    net = trained(Records(public.images, np.zeros(30, np.int64))).state.released
    assert torch.equal(net.labelled.images, torch.from_numpy(public.images))
    assert torch.equal(net.labelled.probabilities.argmax(1), torch.from_numpy(public.labels))
    assert torch.allclose(net.labelled.probabilities.sum(1), torch.ones(30))
    assert float(net.labelled.probabilities.amax(1).min()) > 0.9


def test_pictures_that_no_record_is_like_are_not_released() -> None:
    like, unlike = records(20, seed=5), np.full((10, *SHAPE), 255, np.uint8)
    public = Records(np.concatenate([like.images, unlike]), np.zeros(30, np.int64))
    net = trained(public, threshold=4.0).state.released
    assert torch.equal(net.labelled.images, torch.from_numpy(like.images))


def test_votes_of_all_rounds_add_up() -> None:
    """Without noise, three rounds of one cluster count each record three times."""
    state = trained(records(30, seed=5), clusters=1, steps=3, noise_multiplier=0.0).state
    assert state.public.votes.tolist() == [[60.0, 60.0]] * 30
    assert state.released.labelled.probabilities.tolist() == [[0.5, 0.5]] * 30


@pytest.mark.parametrize("steps", [1, 3])
def test_the_threshold_is_in_standard_deviations_of_the_noise_of_the_sum(
    steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = []
    monkeypatch.setattr(VotedPictures, "take", lambda self, images, weights: given.append(weights))
    state = trained(records(30, seed=5), clusters=1, steps=steps, noise_multiplier=4.0, threshold=1.5).state
    expected = (state.public.votes - 1.5 * 4.0 * steps**0.5).clamp(min=0)
    torch.testing.assert_close(given[-1], expected)


def test_nobody_votes_and_all_pictures_stay_without_a_label() -> None:
    net = trained(records(30), records(0), noise_multiplier=0.0).state.released
    assert net.labelled.probabilities.tolist() == [[0.5, 0.5]] * 30


def test_as_a_generator_it_draws_pictures_that_are_likely_to_have_the_label() -> None:
    made = trained(records(30, seed=5), noise_multiplier=0.0)
    labels = torch.arange(50) % 2
    images, given = made.job.sample(made.state.released, 50, labels, torch.Generator().manual_seed(0))
    assert torch.equal(given, labels)
    assert torch.equal((images[:, 0, :, 8:].mean((1, 2)) > 0.5).long(), labels)
    assert len(images.unique(dim=0)) > 15


def test_samples_are_the_labelled_pictures_and_none_comes_twice() -> None:
    made = trained(records(30, seed=5))
    ((images, labels, shares),) = made.job.chunks(made.state.released, [30], None, torch.Generator().manual_seed(0))
    assert len(images.unique(dim=0)) == 30
    assert torch.equal(shares.argmax(1), labels)


@pytest.mark.parametrize(
    ("noise", "declared", "expected"), [(0.7, 2_500, 100), (5.28, 2_500, 68), (5.28, 60_000, 1_623), (5.28, 10, 1)]
)
def test_a_cluster_expects_votes_that_tell_its_class(noise: float, declared: int, expected: int) -> None:
    card = DataCard(shape=SHAPE, classes=10, declared_size=declared)
    assert clusters_of(Config(drawing="pictures", noise_multiplier=noise), card) == expected
    assert clusters_of(Config(drawing="pictures", noise_multiplier=noise, clusters=7), card) == 7


# ------------------------------------------------------------------ the contract


def test_what_a_run_learns_comes_through_the_mechanism(tmp_path: Path) -> None:
    """Unrelated records and a mechanism that answers with noise alone: the same bits. And one record changes no public draw."""
    subject = Subject(
        method=METHODS["evolve"],
        small={**SETTINGS, "encoder": "", "embedding": "cosines", "noise_multiplier": 1.0, "steps": 3},
    )
    checks.non_interference(subject, warm=True)
    checks.removing_a_protected_record_changes_nothing_public(subject, share=0.25)
    checks.resume_equals_an_unbroken_run(subject, tmp_path, at=2)


def test_a_loaded_net_is_the_released_one() -> None:
    made = trained(records(30, seed=5))
    fresh = made.job.generator()
    fresh.load_state_dict(made.state.released.state_dict())
    assert model_bytes(fresh) == model_bytes(made.state.released)


def test_a_run_is_released_loaded_and_verified(tmp_path: Path) -> None:
    run, out, given = tmp_path / "run", tmp_path / "out", records(30, seed=5)
    made = fit(
        "evolve", data=records(40), public=given, card=CARD, out=run, accounts=tmp_path / "log", epsilon=10.0, **BUDGET
    )  # fmt: skip
    release(run, out)
    assert verify(out).problems == []
    assert not (out / "load.py").exists()
    samples, again = made.sample(30, seed=1), Synthesizer.load(out).sample(30, seed=1)
    assert np.array_equal(samples.images, again.images) and np.array_equal(samples.labels, again.labels)
    assert {image.tobytes() for image in samples.images} <= {image.tobytes() for image in given.images}
    assert samples.probabilities is not None and samples.probabilities.shape == (30, 2)
    certificate = json.loads((out / "certificate.json").read_text())
    assert "contains these pictures as they are" in certificate["not_covered"][0]
    assert not any("drawing program" in entry["what"] for entry in certificate["facts"]["public_inputs"])
    assert "The file contains the public pictures of the run as they are, and its samples are these pi" in " ".join(
        (out / "README.md").read_text().split()
    )


# ------------------------------------------------------------------ what is refused, before any budget is used


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"encoder": ""}, "no features can be learnt from drawings. Add `encoder"),
        ({"generator": "some"}, "makes the candidates in place of `drawing=pictures`"),
    ],
)
def test_settings_that_contradict_pictures_are_refused(settings: dict[str, Any], says: str) -> None:
    plain = Job.of(METHODS["evolve"], {"noise_multiplier": 1.0, **SETTINGS, **settings}, CARD)
    with pytest.raises(RequestError, match=says):
        _ = plain.plan


def asked(folder: Path, *, data: Any = None, **settings: Any) -> str:
    """How a run says that it does not begin. It has used no budget and has left no file."""
    given: dict[str, Any] = {
        **BUDGET,
        "data": data or records(40),
        "card": CARD,
        "epsilon": 10.0,
        "process": Process(sink=silent),
        **settings,
    }
    if isinstance(given.get("public"), Path):
        given["public"] = Source(given["public"], labels_key="none")
    with pytest.raises(GossamerError) as found:
        fit("evolve", out=folder / "run", accounts=folder / "log", **given)
    assert not (folder / "run" / "ledger.jsonl").exists()
    assert not (folder / "log").exists() or not any((folder / "log").rglob("*.jsonl"))
    assert "\n" not in str(found.value)
    return str(found.value)


def test_public_pictures_are_needed_with_this_drawing_and_with_no_other(tmp_path: Path) -> None:
    assert "need public records" in asked(tmp_path)
    assert "no use for public records" in asked(
        tmp_path, public=records(9), drawing="patches", clusters=0
    )  # fmt: skip
    assert "would publish records" in asked(tmp_path, public=0.2)


def test_private_records_are_no_public_pictures(tmp_path: Path) -> None:
    held = records(40)
    both = Records(np.concatenate([held.images[3:4], records(9, seed=7).images]), np.zeros(10, np.int64))
    assert "among the private records too" in asked(tmp_path, data=held, public=both)


def folder_of(place: Path, images: np.ndarray) -> Path:
    place.mkdir()
    for at, image in enumerate(images):
        Image.fromarray(image[0]).save(place / f"{at}.png")
    return place


def test_a_folder_that_misbehaves_is_refused(tmp_path: Path) -> None:
    """One picture, none, a file that is no picture, and a folder that is not there. Other sizes are resized as all pictures."""
    one = folder_of(tmp_path / "one", records(1, seed=5).images)
    assert "1 pictures, and the card has 2 classes" in asked(tmp_path, public=one)
    empty = folder_of(tmp_path / "empty", records(0).images)
    assert "empty" in asked(tmp_path, public=empty)
    broken = folder_of(tmp_path / "broken", records(5, seed=5).images)
    (broken / "9.png").write_bytes(b"no picture")
    assert "9.png" in asked(tmp_path, public=broken)
    assert "nowhere" in asked(tmp_path, public=tmp_path / "nowhere")


def test_a_folder_of_copies_is_harmless(tmp_path: Path) -> None:
    same = np.repeat(records(1, seed=5).images, 6, axis=0)
    made = fit(
        "evolve",
        data=records(40),
        public=Source(folder_of(tmp_path / "same", same), labels_key="none"),
        card=CARD,
        out=tmp_path / "run",
        accounts=None,
        epsilon=10.0,
        **BUDGET,
    )
    assert len(made.sample(12, seed=0).images) == 12


def test_a_state_is_whole_after_all_public_pictures() -> None:
    public = records(2 * PARTS + 7, seed=5)
    state = trained(public, steps=1).state
    assert torch.equal(state.public.images, torch.from_numpy(public.images))
    assert state.public.positions.shape == (len(public), 2)
