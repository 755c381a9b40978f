"""Fetch the public data sets that some tests and benchmarks read. A person runs it; no test and no other program does.

python tools/data.py FOLDER                     fetch what is not there, about 45 MB
GOSSAMER_TEST_DATA=FOLDER make test             the tests that need the data do not skip

The digest of its content decides whether a file is right, wherever it came from. Of a .gz, the content is what is packed, for
mirrors pack anew. A file with another digest is not kept, and a file that is there is not replaced.
Two files that tests read are no download: cifar10_subset and lfw are choices from larger data sets. Tests of them skip.

Terms: MNIST (LeCun, Cortes, Burges), CC BY-SA 3.0. Fashion-MNIST (Zalando), MIT. QMNIST (Facebook), BSD-style. Adult (UCI),
CC BY 4.0. Pima diabetes, CC0.
"""

import gzip
import hashlib
import io
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

LARGEST = 100_000_000
"""Bytes of a file, packed or not. The largest has 47 MB."""
MNIST = "https://storage.googleapis.com/cvdf-datasets/mnist"
FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
QMNIST = "https://raw.githubusercontent.com/facebookresearch/qmnist/master"
ADULT = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult"
PIMA = "https://raw.githubusercontent.com/jbrownlee/Datasets/master"


@dataclass(frozen=True)
class Download:
    """A file to fetch.

    Args:
        place: below the folder.
        url: where it is public.
        sha256: of its content, unpacked where it is a .gz.
    """

    place: str
    url: str
    sha256: str


def _all(folder: str, base: str, digests: dict[str, str]) -> list[Download]:
    return [Download(f"{folder}/{name}", f"{base}/{name}", sha256) for name, sha256 in digests.items()]


MNIST_FILES = {
    "train-images-idx3-ubyte.gz": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte.gz": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte.gz": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte.gz": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
FASHION_FILES = {
    "train-images-idx3-ubyte.gz": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte.gz": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte.gz": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte.gz": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}
QMNIST_FILES = {
    "qmnist-train-labels-idx2-int.gz": "bb1b6e1ec7b04fd5696f1ed50b5f58f8ef195118edd5c93c81783df9740b8ac5",
    "qmnist-test-labels-idx2-int.gz": "92d0ccb8c25f9c6534270fb4be7e1d24a1c6d315edfc8a638bfbd31c70f362dd",
}
ADULT_FILES = {
    "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    "adult.names": "c248284c0b5de30c9e1958d6cdd168a34a654758b620e68f46aefa83fc0a576a",
}
DOWNLOADS = [
    *_all("mnist", MNIST, MNIST_FILES),
    *_all("fashion_mnist", FASHION, FASHION_FILES),
    *_all("mnist_writers", QMNIST, QMNIST_FILES),
    *_all("adult", ADULT, ADULT_FILES),
    Download(
        "tabular/pima-indians-diabetes.csv",
        f"{PIMA}/pima-indians-diabetes.data.csv",
        "6bfe5d0f379d17a0e0819b996407e3c09bf80febd4287f2ed212190dfff154af",
    ),
]
"""Digests of the files that the documented figures were computed on."""


def digest(packed: bytes, name: str) -> str:
    """Return the SHA-256 of a file's content; of nothing, where a .gz cannot be unpacked or has more than LARGEST bytes."""
    if not name.endswith(".gz"):
        return hashlib.sha256(packed).hexdigest()
    try:
        with gzip.open(io.BytesIO(packed)) as file:
            content = file.read(LARGEST + 1)
    except (OSError, EOFError):
        return ""
    return hashlib.sha256(content).hexdigest() if len(content) <= LARGEST else ""


def fetch(files: Iterable[Download], folder: Path) -> list[str]:
    """Fetch each file that is not there. Returns what went wrong, a sentence for a file; the others are in place."""
    return [problem for each in files if (problem := _fetch(each, folder / each.place))]


def _fetch(file: Download, place: Path) -> str:
    if place.exists():
        right = digest(place.read_bytes(), place.name) == file.sha256
        return "" if right else f"{place} is there with other content. Move it away, then run this again."
    try:
        with urllib.request.urlopen(file.url, timeout=60) as answer:
            packed = answer.read(LARGEST + 1)
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        return f"{file.url} gives no file: {error}. Put the file at {place} yourself; its digest is checked."
    if digest(packed, place.name) != file.sha256:
        return f"{file.url} gives other content than expected, and it was not kept. Find the file elsewhere."
    place.parent.mkdir(parents=True, exist_ok=True)
    unfinished = place.with_name(f"{place.name}.part")
    unfinished.write_bytes(packed)
    unfinished.replace(place)
    print(f"{place}: {len(packed):,} bytes")
    return ""


def write_writers(folder: Path) -> None:
    """Write `mnist_writer_ids.npz` from QMNIST's labels: who wrote each digit of MNIST, in MNIST's order.

    The first 60,000 rows of QMNIST's training labels and the first 10,000 of its test labels are MNIST's. A row is: label,
    series of forms, writer, and five numbers more.
    """
    arrays = {}
    for part, count in (("train", 60_000), ("test", 10_000)):
        with gzip.open(folder / f"qmnist-{part}-labels-idx2-int.gz") as file:
            rows = np.frombuffer(file.read()[12:], ">i4").reshape(-1, 8)[:count]
        arrays[f"{part}_writer"] = rows[:, 2].astype(np.int16)
        arrays[f"{part}_hsf"] = rows[:, 1].astype(np.int8)
        arrays[f"{part}_labels"] = rows[:, 0].astype(np.uint8)
    np.savez_compressed(folder / "mnist_writer_ids.npz", **arrays)


def main(words: list[str]) -> int:
    """Fetch into the folder that is named; 1 where a file is missing or wrong."""
    if len(words) != 1 or words[0].startswith("-"):
        print(__doc__)
        return 2
    folder = Path(words[0])
    problems = fetch(DOWNLOADS, folder)
    print("\n".join(problems), end="\n" if problems else "")
    writers = folder / "mnist_writers"
    if all((writers / name).exists() for name in QMNIST_FILES) and not (writers / "mnist_writer_ids.npz").exists():
        write_writers(writers)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
