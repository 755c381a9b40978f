"""What a pretrained encoder gives the teacher: its accuracy, and that of a classifier trained on the public pictures it labels.

The data are LFW's faces, or an .npz with train_images, train_labels, test_images and test_labels, such as the part of CIFAR-10,
or "leaves": 5,000 and 1,000 computer-drawn pictures of `leaves.py` in 10 classes of shapes, with `--side` pixels on a side.
In all measures but "classifier", every second training record stands for a public picture without a label, and only the others
are private. The accuracies are computed on real records, so no guarantee covers them. "voted" is `evolve --drawing pictures`,
and "moments" is `feature-moments`. "generated", on request only, is `moments`: a regression on the features of 1,000 samples.

    python benchmarks/pretrained.py ../shared/data/cifar10_subset/cifar10_5000_1000.npz --out results.jsonl --features lite0.npy
    python benchmarks/pretrained.py leaves --side 128 --measures classifier labelled moments generated
"""

import argparse
import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

import gossamer
from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.data.source import Source
from gossamer.intervals import proportion
from gossamer.methods.common.labelled import PublicPictures
from gossamer.methods.common.softmax_regression import Classifier, with_features
from gossamer.methods.common.votes import embedded
from gossamer.nets.encoders import PluginEncoder
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng
from gossamer.run.training.plan import plan
from gossamer.run.training.progress import Process
from leaves import leaves

C = 10.0
"""Inverse strength of the penalty of the logistic regression, for features of length 1."""

MEASURES = ["no privacy", "classifier", "labelled", "voted", "moments"]
SAMPLES = 1_000
"""Of a generator: so many are compared."""


def read(path: Path) -> tuple[Records, Records]:
    """Training and test records."""
    arrays = np.load(path)
    if "gender" in arrays:
        return faces(arrays["images"], arrays["gender"], arrays["person_id"])

    def part(name: str) -> Records:
        images = np.ascontiguousarray(arrays[f"{name}_images"].transpose(0, 3, 1, 2))
        return Records(images, arrays[f"{name}_labels"].astype(np.int64))

    return part("train"), part("test")


def faces(images: np.ndarray, gender: np.ndarray, person: np.ndarray) -> tuple[Records, Records]:
    """LFW's faces with the gender as label, as many of each. Every fifth person is in the test records."""
    sides = []
    for side in (person % 5 != 0, person % 5 == 0):
        of_each = [np.random.default_rng(0).permutation(np.flatnonzero(side & (gender == label))) for label in (0, 1)]
        chosen = np.concatenate([places[: min(map(len, of_each))] for places in of_each])
        chosen = np.random.default_rng(1).permutation(chosen)
        sides.append(Records(images[chosen, None], gender[chosen].astype(np.int64)))
    return sides[0], sides[1]


def described(records: Records, encoder: str, classes: int, cache: Path | None) -> Records:
    """Features in place of images. cache: file that holds them, or will."""
    if cache is not None and cache.is_file():
        return Records(np.load(cache), records.labels)
    net = Classifier(records.shape, classes, PluginEncoder(encoder, records.shape) if encoder else None)
    begun = time.process_time()
    found = with_features(net, records)
    print(
        f"features: {(time.process_time() - begun) / len(records) * 1e3:.0f} ms of processor time a picture", flush=True
    )
    if cache is not None:
        np.save(cache, found.images)
    return found


def trained(
    private: Records, shape: tuple[int, int, int], classes: int, settings: dict[str, Any], epsilon: float, seed: int,
    public: PublicPictures | None = None,
) -> tuple[Any, Classifier, dict[str, Any]]:  # fmt: skip
    """A run's job, what it releases, and figures of it. private: with features in place of images."""
    card = DataCard(shape=shape, classes=classes, declared_size=len(private))
    request = plan("teacher", card, settings, epsilon=epsilon, delta=1e-5)
    ledger = PrivacyLedger(budget=request.epsilon, delta=request.delta, relation=request.job.relation)
    ledger.reserve(request.plan)
    begun = time.process_time()
    training = request.job.begin(Rng(seed))
    state: Any = training.state
    if public is not None:
        state.public = public
    for _ in training.drive(Confined(private, ledger, training.run.rng)):
        pass
    facts = {"noise_multiplier": request.job.settings["noise_multiplier"], "processor_s": time.process_time() - begun}
    return request.job, state.released, facts


def on_public(
    method: str, settings: dict[str, Any], private: Records, images: np.ndarray, public: Records, classes: int,
    epsilon: float, seed: int,
) -> tuple[Any, Any, dict[str, Any]]:  # fmt: skip
    """The same of `evolve` and `feature-moments` over public pictures. private, public: with features in place of images."""
    card = DataCard(shape=images.shape[1:], classes=classes, declared_size=len(private))
    request = plan(method, card, settings, epsilon=epsilon, delta=1e-5)
    ledger = PrivacyLedger(budget=request.epsilon, delta=request.delta, relation=request.job.relation)
    ledger.reserve(request.plan)
    training = request.job.begin(Rng(seed))
    state: Any = training.state
    private, public = (dataclasses.replace(each, images=each.images[:, :, None, None]) for each in (private, public))
    begun = time.process_time()
    if method == "evolve":
        state.embedding = as_they_are
        state.public.images, state.phase = torch.from_numpy(images), "training"
        state.public.positions = embedded(public, state.embedding).float()
        state.public.votes = torch.zeros(len(images), classes, dtype=torch.float64)
    else:
        del state.net.axes.encoder
        state.net.axes.encoder = as_they_are
    for _ in training.drive(Confined(private, ledger, training.run.rng), public):
        pass
    if method == "feature-moments":
        state.net.labelled.images = torch.from_numpy(images)
    facts = {"noise_multiplier": request.job.settings["noise_multiplier"], "processor_s": time.process_time() - begun}
    return request.job, state.released, facts


def as_they_are(features: torch.Tensor) -> torch.Tensor:
    """In place of an encoder: the features have been computed, and are no pixels."""
    return features.flatten(1) * 255


def generated(private: Records, classes: int, epsilon: float, seed: int) -> Records:
    """Samples of `moments`. private: with images."""
    card = DataCard(shape=private.shape, classes=classes, declared_size=len(private))
    made = gossamer.fit(
        "moments",
        data=Source(private, public_test_data=True),
        card=card,
        epsilon=epsilon,
        delta=1e-5,
        seed=seed,
        process=Process(progress=False),
    )
    samples = made.sample(SAMPLES, seed=seed)
    return Records(samples.images, samples.labels)


def regression(features: np.ndarray, labels: np.ndarray, test: Records) -> int:
    """How many test records a logistic regression on these features gets right."""
    model = LogisticRegression(C=C, tol=1e-3).fit(features.astype(np.float32), labels)
    return int((model.predict(test.images.astype(np.float32)) == test.labels).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help='a file, or "leaves"')
    parser.add_argument("--side", type=int, default=128, help="of leaves, in pixels")
    parser.add_argument("--grey", action="store_true", help="leaves without colours")
    parser.add_argument("--encoder", default="lite0", help='"": wavelet scattering, for teacher alone')
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 10.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--measures", choices=[*MEASURES, "generated"], nargs="+", default=MEASURES)
    parser.add_argument("--features", type=Path, help=".npy with the features of all records, or where to keep them")
    parser.add_argument(
        "--held-out", action="store_true", help="ask about every fifth training record, and no test record"
    )
    parser.add_argument("--out", type=Path, help="file to which each figure is added as a line of JSON")
    options = parser.parse_args()
    torch.set_num_threads(1)

    if options.data == Path("leaves"):
        train, test = (leaves(n, options.side, seed=seed, grey=options.grey) for seed, n in enumerate((5_000, 1_000)))
    else:
        train, test = read(options.data)
    shape, classes = train.shape, int(train.labels.max()) + 1
    pictures = np.concatenate([train.images, test.images])
    everything = Records(pictures, np.concatenate([train.labels, test.labels]))
    features = described(everything, options.encoder, classes, options.features)
    learning, asked = features[: len(train)], features[len(train) :]
    if options.held_out:
        fifth = np.arange(len(train)) % 5 == 4
        learning, asked, train = learning[~fifth], learning[fifth], train[~fifth]

    def report(what: str, right: int, **facts: Any) -> None:
        share = proportion(right, len(asked), "asked")
        line = {"what": what, "encoder": options.encoder, "asked": "held out" if options.held_out else "test", **facts}
        line |= {"accuracy": round(share.value, 4), "low": round(share.low, 4), "high": round(share.high, 4)}
        print(json.dumps(line), flush=True)
        if options.out is not None:
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    public = np.arange(len(learning)) % 2 == 1
    folder = PublicPictures(torch.from_numpy(train.images[public]), torch.from_numpy(learning.images[public]))
    place = {picture.tobytes(): at for at, picture in enumerate(train.images[public])}
    asked_features = torch.from_numpy(asked.images).float()

    if "no privacy" in options.measures:
        report("regression on all records, no privacy", regression(learning.images, learning.labels, asked))
        right = regression(folder.features.numpy(), learning.labels[public], asked)
        report("regression on the public part with true labels", right)
    settings = {"encoder": options.encoder}
    for seed in options.seeds:
        for epsilon in options.epsilons:
            about = {"epsilon": epsilon, "seed": seed}
            if "classifier" in options.measures:
                _, net, facts = trained(learning, shape, classes, settings, epsilon, seed)
                said = net.head(asked_features).argmax(1).numpy()
                report("classifier", int((said == asked.labels).sum()), **about, records=len(learning), **facts)
            if "generated" in options.measures:
                samples = generated(train, classes, epsilon, seed)
                features = described(samples, options.encoder, classes, None)
                right = regression(features.images, samples.labels, asked)
                report("regression on samples of moments", right, **about, records=len(train), pictures=SAMPLES)
            for measure in ("labelled", "voted", "moments"):
                if measure not in options.measures:
                    continue
                if measure == "labelled":
                    job, net, facts = trained(learning[~public], shape, classes, settings, epsilon, seed, folder)
                else:
                    method = {"voted": "evolve", "moments": "feature-moments"}[measure]
                    chosen = {**settings, "drawing": "pictures"} if measure == "voted" else settings
                    given = (learning[~public], train.images[public], learning[public], classes, epsilon, seed)
                    job, net, facts = on_public(method, chosen, *given)
                if measure == "moments":
                    said = net.of_codes(net.axes.code(asked_features)).argmax(1).numpy()
                    right = int((said == asked.labels).sum())
                    report("classifier of moments", right, **about, records=int((~public).sum()), **facts)
                ((images, labels, _),) = job.chunks(net, [int(public.sum())], None, torch.Generator().manual_seed(seed))
                where = np.array([place[picture.tobytes()] for picture in images.mul(255).round().byte().numpy()])
                correct = float((labels.numpy() == learning.labels[public][where]).mean())
                right = regression(folder.features.numpy()[where], labels.numpy(), asked)
                more = {"records": int((~public).sum()), "pictures": len(where), "labels_right": round(correct, 4)}
                report(f"regression on the {measure} public part", right, **about, **more, **facts)


if __name__ == "__main__":
    main()
