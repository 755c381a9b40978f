"""What `moments` does for faces with `--public-detail` or `--autoencoder`: how near samples come to records, in the features of
an encoder.

LFW's faces by person: of each ten, three are public, six private and one held out. Classes are the two values of `gender`. The
figures are computed on real records, so no guarantee covers them.

    python benchmarks/detail.py ../shared/data/lfw/lfwcrop_gray32.npz --out results.jsonl
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gossamer
from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.data.source import Source
from gossamer.metrics.fidelity import mmd
from gossamer.metrics.neighbours import neighbourhood
from gossamer.nets.encoders import PluginEncoder
from gossamer.run.training.progress import Process


def parts(path: Path) -> tuple[Records, Records, Records]:
    """Public, private and held-out faces. Nobody is in two of them, and of pictures with two names only the first is taken."""
    arrays = np.load(path)
    _, first = np.unique(arrays["images"].reshape(len(arrays["images"]), -1), axis=0, return_index=True)
    arrays = {name: arrays[name][np.sort(first)] for name in ("images", "gender", "person_id")}
    known, tenth = arrays["gender"] >= 0, arrays["person_id"] % 10
    sides = (known & (tenth < 3), known & (tenth >= 3) & (tenth < 9), known & (tenth == 9))
    public, private, held_out = (
        Records(arrays["images"][side, None], arrays["gender"][side].astype(np.int64)) for side in sides
    )
    return public, private, held_out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--encoder", default="lite0")
    parser.add_argument(
        "--autoencoder", default="", help="also measure moments with it, for example diffusers_folders:FOLDER"
    )
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 10.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--pictures", type=int, default=400, help="how many of each kind are compared")
    parser.add_argument("--out", type=Path, help="file to which each figure is added as a line of JSON")
    options = parser.parse_args()
    torch.set_num_threads(1)
    public, private, held_out = parts(options.data)
    encoder = PluginEncoder(options.encoder, private.shape)

    def features(images: np.ndarray) -> np.ndarray:
        chosen = np.random.default_rng(0).permutation(len(images))[: options.pictures]
        pictures = torch.from_numpy(images[chosen]).float() / 255
        return torch.cat([encoder(piece) for piece in pictures.split(50)]).numpy()

    of_records = features(private.images)

    def report(what: str, images: np.ndarray, **about: Any) -> None:
        found = features(images)
        near = neighbourhood(found, of_records)
        figures = {name: round(getattr(near, name).value, 3) for name in ("precision", "recall", "coverage")}
        line = {"what": what, **about, "mmd": round(mmd(found, of_records).value, 4), **figures}
        print(json.dumps(line), flush=True)
        if options.out is not None:
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    report("held-out faces", held_out.images)
    report("public faces", public.images)
    card = DataCard(shape=private.shape, classes=2, declared_size=len(private))
    for seed in options.seeds:
        for epsilon in options.epsilons:
            kinds: dict[str, dict[str, Any]] = {"moments": {}, "moments with public detail": {"public_detail": True}}
            if options.autoencoder:
                kinds[f"moments with {options.autoencoder}"] = {"autoencoder": options.autoencoder}
            for what, more in kinds.items():
                made = gossamer.fit(
                    "moments",
                    data=Source(private, public_test_data=True),
                    public=public,
                    card=card,
                    epsilon=epsilon,
                    delta=1e-5,
                    axes=64,
                    **more,
                    process=Process(progress=False),
                )
                samples = made.sample(options.pictures, seed=seed)
                report(what, samples.images, epsilon=epsilon, seed=seed)


if __name__ == "__main__":
    main()
