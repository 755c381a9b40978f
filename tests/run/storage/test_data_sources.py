"""Who is public, who is not, and what a run says about it: the same whoever else is there."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gossamer as gossamer_package
from gossamer.data.card import DataCard, protected_part
from gossamer.data.fingerprint import SALT, made_public
from gossamer.data.source import Source
from gossamer.data.sources.pictures.read import read
from gossamer.errors import CardError, DataError, DataWarning, RequestError
from gossamer.run.release.verify import verify
from gossamer.run.storage.data_sources import DataSources
from gossamer.run.storage.run_folder import WARM
from gossamer.run.training.fit import fit
from gossamer.run.training.progress import Process
from gossamer.run.training.resume import resume

Run = Callable[..., Any]
CARD = DataCard(shape=(1, 28, 28), classes=2, declared_size=160)
WRITERS = DataCard(shape=(1, 28, 28), classes=2, declared_size=40, unit="writer")
SHARE = 0.25
SETTINGS: dict[str, Any] = {
    "noise_multiplier": 1.0, "delta": 1e-3, "steps": 16, "expected_batch_size": 16, "width": 4, "latent_size": 8,
    "warm_steps": 4, "discriminator_steps": 4,
}  # fmt: skip


def sources(data: Path | str, **named: Any) -> DataSources:
    about = {name: named.pop(name) for name in ("labels_key", "units") if name in named}
    return DataSources.of(Source(data, **about), **named)


def arrays(data: Path) -> dict[str, np.ndarray]:
    with np.load(data) as there:
        return dict(there)


def without(data: Path, gone: np.ndarray | list[int], name: str) -> Path:
    """The data without some records, in a file of its own."""
    np.savez(data.parent / name, **{key: np.delete(array, gone, axis=0) for key, array in arrays(data).items()})
    return data.parent / name


def protected(data: Path) -> np.ndarray:
    """Positions of the records that a share does not take."""
    return np.flatnonzero(~made_public(read(str(data), split="train"), share=SHARE, salt=SALT))


# classes


@pytest.mark.parametrize("kind", ["npz", "folders"])
def test_one_record_of_a_class_of_its_own_moves_the_label_of_nobody_else(tmp_path: Path, kind: str) -> None:
    """Names were numbered by which of them occurred: whoever was alone in class a made a 1 of every 0."""
    card = DataCard(shape=(1, 28, 28), classes=3, declared_size=5)
    images = np.random.default_rng(0).integers(0, 256, (6, 28, 28), np.uint8)

    def labels(names: list[str], card: DataCard) -> list[int]:
        data = tmp_path / f"{kind}-{len(names)}-{names[-1]}"
        if kind == "npz":
            data = data.with_suffix(".npz")
            np.savez(data, images=images[: len(names)], labels=np.array(names))
        else:
            for number, name in enumerate(names):
                (data / name).mkdir(parents=True, exist_ok=True)
                Image.fromarray(images[number]).save(data / name / f"{number}.png")
        found = sources(data).read_unconfined(card).private
        return [
            int(found.labels[found.images.reshape(-1, 784).tolist().index(each.ravel().tolist())])
            for each in images[:5]
        ]

    for names in (["b", "b", "c", "b", "c"], ["b", "b", "c", "b", "c", "a"]):
        with pytest.raises(DataError, match=r"the class of records? \d.* It names 0, 1, 2\."):
            labels(names, card)
    named = dataclasses.replace(card, class_names=("a", "b", "c"))
    assert labels(["b", "b", "c", "b", "c"], named) == labels(["b", "b", "c", "b", "c", "a"], named) == [1, 1, 2, 1, 2]
    assert labels(["1", "1", "2", "1", "2"], card) == labels(["1", "1", "2", "1", "2", "0"], card) == [1, 1, 2, 1, 2]


# --public-share


def test_the_attack_on_a_split_by_permutation_has_nothing_to_go_by(data: Path) -> None:
    """A split by a seeded permutation of positions: remove one protected record, and other people become public. Whoever reran
    the warm starts of two neighbouring data sets named the right one 8 times of 8, at a certified epsilon of 1. Now both have
    the same public part, bit for bit, so their warm starts are equal, and no rerun tells them apart.
    """
    whole = sources(data, share=SHARE).read_unconfined(CARD)
    for gone in np.random.default_rng(0).choice(protected(data), 8, replace=False):
        found = sources(without(data, [gone], "neighbour.npz"), share=SHARE).read_unconfined(CARD)
        assert found.public is not None and whole.public is not None
        assert len(found.private) == len(whole.private) - 1
        assert found.public.images.tobytes() == whole.public.images.tobytes()
        assert found.public.labels.tobytes() == whole.public.labels.tobytes()
        assert found.facts.public == whole.facts.public


def test_neighbours_have_the_same_warm_start_and_the_same_settings(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """End to end: what is made before the first private step, and what is released beside the model, bit for bit."""
    runs = {"whole": data, "neighbour": without(data, [int(protected(data)[5])], "patients_.npz")}
    for name, path in runs.items():
        fit("dpgan", data=path, card=CARD, out=tmp_path / name, public=SHARE, **SETTINGS)
    assert (tmp_path / "whole/checkpoint" / WARM).read_bytes() == (
        tmp_path / "neighbour/checkpoint" / WARM
    ).read_bytes()
    whole, neighbour = (json.loads((tmp_path / name / "config.json").read_text()) for name in runs)
    assert whole.pop("run") != neighbour.pop("run")  # a random word of each run
    assert whole == neighbour
    words = [json.loads((tmp_path / name / "certificate.json").read_text()) for name in runs]
    same = ("statement", "assumptions", "covered", "not_covered", "public_data", "card", "config", "guarantees", "plan")
    assert [words[0][key] for key in same] == [words[1][key] for key in same]


def test_a_start_that_votes_chose_is_not_called_free(data: Path, tmp_path: Path) -> None:
    """What `evaluate` shows as the public start alone, at epsilon 0, is kept only where nothing was released before it."""
    few = {"steps": 2, "expected_batch_size": 20, "axes": 4, "width": 8, "multiplicity": 1, "warm_steps": 2}
    request = {"data": data, "card": CARD, "noise_multiplier": 4.0, "delta": 1e-3, "public": SHARE}
    for votes in (0.0, 1.0):
        fit("dp-diffusion", out=tmp_path / str(votes), votes_noise=votes, **request, **few)
        assert (tmp_path / str(votes) / "checkpoint" / WARM).is_file() == (votes == 0)


def test_what_a_run_says_of_those_who_gave_theirs_up(data: Path, tmp_path: Path) -> None:
    """The first paragraph names them. The declared size is far from the real one here, and every size that is written down
    follows the declared one: nothing was counted."""
    card = DataCard(shape=(1, 28, 28), classes=2, declared_size=1_000)
    found = sources(data, share=SHARE).read_unconfined(card)
    assert found.public is not None
    run = fit("dpgan", data=data, card=card, out=tmp_path / "run", public=SHARE, **{**SETTINGS, "delta": 1e-4})
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["card"]["declared_size"] == 750
    assert config["public"] == {"kind": "share", "share": SHARE, "salt": SALT}

    said = run.certificate
    given = "the records that were made public, about 0.25 of all (250 expected), picked by a hash of each record's own pixels"
    assert f"NOT protected: {given}." in said.statement
    assert "Whether one protected record was in the data" in said.statement
    assert said.covered == [
        "model.safetensors, and any number of its samples, for every record that was not made public"
    ]
    assert said.not_covered[0].startswith(given)
    assert said.public_data == f"{given}; not protected"
    assert said.assumptions[0] == "declared size: 750 protected records"
    assert any(repr(SALT) in line and "that record alone" in line for line in said.assumptions)
    assert said.plan[0]["event"]["sampling_rate"] == 16 / 750
    assert f"does not hold for everyone:</strong> {given}" in (tmp_path / "run" / "report.html").read_text().replace(
        "&#39;", "'"
    )
    for counted in (len(found.public), len(found.private)):
        assert f" {counted} " not in (tmp_path / "run" / "certificate.json").read_text()
    assert verify(tmp_path / "run").ok


def test_seeds_and_other_runs_give_up_the_same_people(data: Path) -> None:
    small, large = (sources(data, share=share).read_unconfined(CARD).public for share in (0.1, 0.4))
    assert small is not None and large is not None
    assert {image.tobytes() for image in small.images} < {image.tobytes() for image in large.images}


def test_whole_writers_are_given_up_by_their_ids(data: Path, tmp_path: Path) -> None:
    writers = np.array([f"writer {index % 40}" for index in range(160)])
    np.savez(tmp_path / "ids.npz", who=writers)
    whole = sources(data, units=f"{tmp_path / 'ids.npz'}:who", share=SHARE).read_unconfined(WRITERS)
    assert whole.public is not None
    assert len(whole.public) == 4 * whole.public.population
    own = {image.tobytes() for image in whole.private.images}
    left = next(
        name
        for name, image in zip(writers, read(str(data), split="train").images, strict=True)
        if image.tobytes() in own
    )
    gone = np.flatnonzero(writers == left)
    np.savez(tmp_path / "rest.npz", who=np.delete(writers, gone))
    found = sources(
        without(data, gone, "rest_.npz"), units=f"{tmp_path / 'rest.npz'}:who", share=SHARE
    ).read_unconfined(WRITERS)
    assert found.public is not None
    assert found.public.images.tobytes() == whole.public.images.tobytes()
    assert found.private.population == whole.private.population - 1


def test_a_protected_writer_may_hold_a_copy_of_a_public_picture(data: Path, tmp_path: Path) -> None:
    """Not refused: the public part does not look at that writer, who is protected like any other. To refuse would tell."""
    held = arrays(data)
    ids = np.array([f"writer {index // 4}" for index in range(160)])
    records = sources(data, units=":who", share=SHARE)
    np.savez(data, **held, who=ids)
    before = records.read_unconfined(WRITERS)
    assert before.public is not None
    shared = before.public.images[0]
    theirs = next(i for i, image in enumerate(held["images"]) if image.tobytes() == before.private.images[0].tobytes())
    held["images"][theirs] = shared[0]
    np.savez(data, **held, who=ids)
    after = records.read_unconfined(WRITERS)
    assert after.public is not None
    assert after.public.images.tobytes() == before.public.images.tobytes()
    assert any(image.tobytes() == shared.tobytes() for image in after.private.images)


def test_nobody_public_is_said_and_nobody_private_is_not(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first follows from the public part alone. The second would tell that the last protected record is gone."""
    with pytest.raises(RequestError, match="no unit is in the public part"):
        sources(
            without(data, np.setdiff1d(np.arange(160), protected(data)), "private.npz"), share=SHARE
        ).read_unconfined(CARD)
    lonely = without(data, protected(data), "public.npz")
    assert len(sources(lonely, share=SHARE).read_unconfined(CARD).private) == 0
    certificate = fit("dpgan", data=lonely, card=CARD, out=tmp_path / "run", public=SHARE, **SETTINGS).certificate
    assert certificate.statement.startswith("Differentially private: epsilon ")


@pytest.mark.parametrize(("share", "stays"), [(0.02, 58_800), (0.1, 54_000), (1 / 3, 40_000)])
def test_the_declared_size_is_split_by_the_share(share: float, stays: int) -> None:
    card = DataCard(shape=(1, 28, 28), classes=10, declared_size=60_000)
    assert protected_part(card, share).declared_size == stays


# --public


def refused(answer: Any, *says: str) -> str:
    assert answer.status == 2, answer.err
    assert answer.out == ""
    (paragraph,) = [line for line in answer.err.strip().split("\n") if line.startswith("gossamer: ")]
    assert all(words in paragraph for words in says), paragraph
    return paragraph


@pytest.mark.parametrize("spelling", ["same", "dots", "symlink", "hard link", "digits", "digits:train"])
def test_the_private_records_are_no_public_ones(
    gossamer: Run, fit_words: list[str], data: Path, tmp_path: Path, spelling: str
) -> None:
    words, public = [*fit_words], str(data)
    if spelling.startswith("digits"):
        words[words.index("--data") + 1], public = "digits", spelling
    elif spelling == "dots":
        (tmp_path / "there").mkdir()
        public = f"{tmp_path}/there/../{data.name}"
    elif spelling == "symlink":
        (tmp_path / "link.npz").symlink_to(data)
        public = str(tmp_path / "link.npz")
    elif spelling == "hard link":
        (tmp_path / "link.npz").hardlink_to(data)
        public = str(tmp_path / "link.npz")
    refused(gossamer(*words, "--public", public), "--public and --data name the same records")
    assert not (tmp_path / "run").exists()


def test_a_folder_spelled_otherwise_is_found_by_its_pictures(tmp_path: Path, data: Path) -> None:
    for index, image in enumerate(arrays(data)["images"][:6]):
        path = tmp_path / "there" / "train" / str(index % 2) / f"{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    for public in (tmp_path / "there", f"{tmp_path / 'there'}:train"):
        with pytest.raises(RequestError, match="`public` and `data` name the same records"):
            sources(tmp_path / "there", public=public).read_unconfined(CARD)
    with pytest.raises(DataError, match="is among the private records too"):
        sources(tmp_path / "there", public=tmp_path / "there" / "train").read_unconfined(CARD)


def test_one_picture_on_both_sides_is_refused_and_the_refusal_tells_nothing_else(
    gossamer: Run, fit_words: list[str], data: Path, tmp_path: Path
) -> None:
    """One record or forty, the first or the last, under its own label or another: one and the same paragraph."""
    held, fresh = arrays(data), np.random.default_rng(9).integers(0, 256, (40, 28, 28)).astype(np.uint8)
    paragraphs = set()
    for shared in ([0], [159], list(range(40))):
        public = fresh.copy()
        public[: len(shared)] = held["images"][shared]
        np.savez(tmp_path / "public.npz", images=public, labels=np.zeros(40, int))
        answer = gossamer(*fit_words, "--public", tmp_path / "public.npz")
        paragraphs.add(refused(answer, "at least one of these pictures is among the private records too"))
        assert not (tmp_path / "run").exists()
    (paragraph,) = paragraphs
    assert not any(figure in paragraph for figure in "0123456789")
    assert "npz" not in paragraph


def test_records_of_other_people_pass_and_the_certificate_says_what_was_checked(data: Path, tmp_path: Path) -> None:
    held, fresh = arrays(data), np.random.default_rng(9).integers(0, 256, (40, 28, 28)).astype(np.uint8)
    np.savez(tmp_path / "public.npz", images=fresh, labels=np.arange(40) % 2)
    assert not any((fresh == image).all() for image in held["images"])
    run = fit("dpgan", data=data, card=CARD, public=tmp_path / "public.npz", out=tmp_path / "run", **SETTINGS)
    assert any("no public record is among the private records (checked" in line for line in run.certificate.assumptions)
    assert "whether someone in them is also in the private records" in run.certificate.not_covered[0]
    assert verify(tmp_path / "run").ok


def test_public_records_need_no_units(data: Path, tmp_path: Path) -> None:
    """They were once asked for theirs, so that a run by writers could not have public records at all."""
    np.savez(data, **arrays(data), who=np.arange(160) % 40)
    np.savez(
        tmp_path / "public.npz",
        images=np.random.default_rng(9).integers(0, 256, (9, 28, 28)).astype(np.uint8),
        labels=[0] * 9,
    )
    found = sources(data, public=tmp_path / "public.npz", units=":who").read_unconfined(WRITERS)
    assert found.public is not None
    assert (len(found.public), found.private.population) == (9, 40)


class Stopped(Exception):
    """Stands for a crash."""


def crash(event: Any) -> None:
    if event.kind == "step" and event.step == 5:
        raise Stopped


@pytest.mark.parametrize(
    ("changed", "says"), [("holds a private record", "is among the private"), ("is another one", "is not what it was")]
)
def test_a_resume_checks_the_public_records_again(data: Path, tmp_path: Path, changed: str, says: str) -> None:
    public = np.random.default_rng(9).integers(0, 256, (40, 28, 28)).astype(np.uint8)
    np.savez(tmp_path / "public.npz", images=public, labels=np.arange(40) % 2)
    with pytest.raises(Stopped):
        fit(
            "dpgan",
            data=data,
            card=CARD,
            public=tmp_path / "public.npz",
            out=tmp_path / "run",
            **SETTINGS,
            process=Process(sink=crash),
        )
    public[3] = arrays(data)["images"][0] if changed == "holds a private record" else 255 - public[3]
    np.savez(tmp_path / "public.npz", images=public, labels=np.arange(40) % 2)
    with pytest.raises(DataError, match=says):
        resume(tmp_path / "run")


# --units


def test_what_is_said_of_units(data: Path, tmp_path: Path) -> None:
    np.savez(data, **arrays(data), who=np.where(np.arange(160) < 9, np.nan, np.arange(160) % 40))
    words = {"card": WRITERS, "out": tmp_path / "run", "data": Source(data, units=":who"), **SETTINGS}
    with pytest.raises(DataError, match=r"index 0 \(counted from 0\).*: this record has no unit"):
        fit("dpgan", **words)
    assert not (tmp_path / "run").exists()
    own = DataCard(shape=(1, 28, 28), classes=2, declared_size=40, unit="writer", missing_unit="own")
    with pytest.warns(DataWarning, match="Records without an id: 9"):
        certificate = fit("dpgan", **{**words, "card": own}).certificate
    assert "the data owner names the writer of each record, matched by position in the file" in certificate.assumptions
    assert "a record without an id counts as a writer of its own" in certificate.assumptions
    assert certificate.covered[1] == (
        "each writer with all records of that writer: they are sampled together, and their joint contribution to a query is "
        "bounded"
    )
    assert verify(tmp_path / "run").ok


def test_units_and_the_card_must_agree_before_a_record_is_read(tmp_path: Path) -> None:
    """The data are not even there."""
    with pytest.raises(CardError, match="nothing says which records belong to one"):
        sources(tmp_path / "none.npz").read_unconfined(WRITERS)
    with pytest.raises(CardError, match='the card says unit = "record"'):
        sources(tmp_path / "none.npz", units=":who").read_unconfined(CARD)


def test_specs_of_units_keep_their_meaning_in_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert sources("a.npz", units=":who").data.units == ":who"
    assert sources("a", units="folder").data.units == "folder"
    assert sources("a", units="people.csv").data.units == str(tmp_path / "people.csv")
    assert sources("a", units="ids.npz:who").data.units == f"{tmp_path / 'ids.npz'}:who"


def test_records_are_read_without_isolation_in_two_places_only() -> None:
    """The simulation plays the owners of the records; `evaluate` asks for the public part."""
    source = Path(gossamer_package.__file__).parent
    callers = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if "read_unconfined(" in path.read_text(encoding="utf-8")
    }
    assert callers == {
        "run/storage/data_sources.py",
        "run/federated/simulate.py",
        "run/evaluation/evaluate.py",
    }
