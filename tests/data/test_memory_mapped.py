"""Records larger than memory: what is mapped stays mapped, what is decoded goes to a file that nobody else can find."""

import ctypes
import gzip
import hashlib
import io
import itertools
import json
import mmap
import os
import resource
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from slowly import slow_among

from gossamer.data import fingerprint, labels, memory_mapped
from gossamer.data.card import DataCard
from gossamer.data.fingerprint import SALT, digests, identify, made_public, share_a_picture
from gossamer.data.memory_mapped import Filling, chosen_rows, filled
from gossamer.data.pixels import to_uint8
from gossamer.data.records import Records
from gossamer.data.source import Reading, Source
from gossamer.data.sources.pictures import decode_workers, idx, npz
from gossamer.data.sources.pictures.image_files import Decoder, Sizer, read_files
from gossamer.data.sources.pictures.read import read, sizes
from gossamer.errors import DataError
from gossamer.run.storage.data_sources import DataSources

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (50, 1, 6, 5), dtype=np.uint8)
LABELS = np.arange(50) % 3


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No array fits the memory. Gives the folder where files without a name lie."""
    place = tmp_path / "scratch"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(memory_mapped, "SHARE", 0.0)
    return place


@pytest.fixture
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that is looked at piece by piece is, in sets of fifty records too."""
    monkeypatch.setattr(memory_mapped, "_ROWS", 7)
    monkeypatch.setattr(to_uint8, "_CHUNK", 7)
    monkeypatch.setattr(labels, "_PIECE", 7)
    monkeypatch.setattr("gossamer.data.fingerprint._PIECE", 7)
    monkeypatch.setattr("gossamer.data.fingerprint._BYTES", IMAGES[:7].nbytes)


def as_folder(folder: Path, **arrays: np.ndarray) -> str:
    folder.mkdir()
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return str(folder)


# Arrays that lie in files


def test_a_folder_of_npy_files_is_an_npz_unpacked(tmp_path: Path) -> None:
    arrays = {
        "train_images": IMAGES, "train_labels": LABELS, "train_who": np.arange(50) // 2,
        "test_images": IMAGES[:4, 0], "test_labels": LABELS[:4], "class_names": np.array(["a", "b", "c"]),
    }  # fmt: skip
    folder = as_folder(tmp_path / "arrays", **arrays)
    np.savez(tmp_path / "a.npz", **arrays)
    for source in (folder, str(tmp_path / "a.npz")):
        found = read(Source(source, units=":who"), split="train")
        assert np.array_equal(found.images, IMAGES) and np.array_equal(found.labels, LABELS)
        assert found.population == 25 and found.class_names == ("a", "b", "c")
        assert np.array_equal(read(f"{source}:test", split="train").images, IMAGES[:4])
    with pytest.raises(DataError, match="there is no key other; the keys are: class_names, test_images, test_labels"):
        npz.member(Path(folder), "other")
    (tmp_path / "arrays" / "test_images.npy").write_bytes(b"\x93NUMPY\x01\x00")
    with pytest.raises(DataError, match="'test_images' cannot be read"):
        read(f"{folder}:test", split="train")


def test_npy_files_beside_class_folders_are_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "classes"
    (folder / "a").mkdir(parents=True)
    Image.fromarray(IMAGES[0, 0]).save(folder / "a" / "1.png")
    np.save(folder / "notes.npy", LABELS)
    assert np.array_equal(read(str(folder), split="train").images, IMAGES[:1])


@pytest.mark.parametrize("form", ["npy", "npz", "idx"])
def test_large_plain_arrays_stay_in_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """From the reader to a draw: images, and labels that need no converting, are pages of the file they came in."""
    monkeypatch.setattr(npz, "MAP_FROM", 1)
    if form == "npy":
        source = as_folder(tmp_path / "arrays", images=IMAGES, labels=LABELS)
    elif form == "npz":
        source = str(tmp_path / "a.npz")
        np.savez(source, images=IMAGES, labels=LABELS)
    else:
        source = str(tmp_path)
        for name, array in zip(idx.NAMES["train"], (IMAGES[:, 0], LABELS), strict=True):
            head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
            (tmp_path / name).write_bytes(head + array.astype(np.uint8).tobytes())
    card = DataCard(shape=(1, 6, 5), classes=3, declared_size=50)
    found = DataSources.of(source).read_unconfined(card).private
    assert memory_mapped.is_mapped(found.images) and not memory_mapped.is_nameless(found.images)
    assert memory_mapped.is_mapped(found.labels) == (form != "idx") and found.labels.dtype == np.int64
    drawn = found.take(np.array([3, 17, 49]))
    assert np.array_equal(drawn.images, IMAGES[[3, 17, 49]]) and np.array_equal(drawn.labels, LABELS[[3, 17, 49]])
    assert drawn.tensors()[0].max() <= 1


@pytest.mark.usefixtures("in_pieces")
def test_labels_are_looked_at_piece_by_piece(tmp_path: Path) -> None:
    """Each wrong label is named, in whichever piece it is."""
    for first, second in ((0, 30), (6, 7), (13, 14), (49, 49)):
        wrong = LABELS.copy()
        wrong[[first, second]] = -1
        named = f"records {first}, {second} " if first != second else f"record {first} "
        with pytest.raises(DataError, match=named):
            read(as_folder(tmp_path / f"{first}", images=IMAGES, labels=wrong), split="train")
    assert [*labels.positions(LABELS, lambda some: some > 5)] == []
    assert [*labels.positions(LABELS[:0], lambda some: some < 9)] == []


# Arrays that readers make


def test_a_filling_in_memory_and_one_in_a_file_hold_the_same(on_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [IMAGES[:20], b"", IMAGES[20:21, :, ::-1], bytearray(b"abc"), IMAGES[:0]]
    for share, dtype in ((0.0, np.uint8), (0.25, np.uint8)):
        monkeypatch.setattr(memory_mapped, "SHARE", share)
        whole = Filling()
        for part in parts:
            whole.add(part)
        found = whole.array((-1,), np.dtype(dtype))
        assert isinstance(found, np.memmap) == (share == 0) == memory_mapped.is_nameless(found)
        assert len(whole) == len(found) == 21 * 30 + 3
        assert found.tobytes() == IMAGES[:20].tobytes() + IMAGES[20:21, :, ::-1].tobytes() + b"abc"
        assert not [*on_disk.iterdir()]
    numbers = np.arange(12, dtype=np.int64)
    for share in (0.0, 0.25):
        monkeypatch.setattr(memory_mapped, "SHARE", share)
        whole = Filling(96)
        whole.add(numbers)
        assert np.array_equal(whole.array((3, 4), np.dtype(np.int64), "F"), numbers.reshape((3, 4), order="F"))


def test_a_filling_moves_to_the_disk_when_it_outgrows_the_memory(
    on_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_mapped, "SHARE", 1.0)
    monkeypatch.setattr(memory_mapped, "free_memory", lambda: 100)
    whole = Filling()
    whole.add(b"a" * 100)
    assert whole._file is None
    whole.add(b"b")
    assert whole._file is not None and not whole._values
    whole.add(b"c")
    assert whole.array((-1,)).tobytes() == b"a" * 100 + b"bc"


def test_a_file_of_records_has_no_name_and_one_reader(on_disk: Path) -> None:
    """Not from its first byte on: between making and removing a name, a kill would leave it."""
    whole = Filling()
    whole.add(b"secret")
    assert whole._file is not None
    status = os.fstat(whole._file.fileno())
    assert status.st_nlink == 0 and stat.S_IMODE(status.st_mode) == 0o600
    assert status.st_dev == on_disk.stat().st_dev and not [*on_disk.iterdir()]
    whole.array((6,))


def test_without_tmpdir_files_lie_where_large_files_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(memory_mapped, "_DISK", tmp_path)
    assert memory_mapped.folder() == tmp_path
    monkeypatch.setattr(memory_mapped, "_DISK", tmp_path / "gone")
    assert memory_mapped.folder() == Path(tempfile.gettempdir())


@pytest.mark.parametrize("expected", [0, 10_000])
def test_a_disk_without_room_is_refused_before_anything_is_written(
    on_disk: Path, monkeypatch: pytest.MonkeyPatch, expected: int
) -> None:
    usage = shutil.disk_usage(on_disk)
    needed = memory_mapped._LEFT + memory_mapped._STEP
    for free, fits in ((needed, True), (needed - 1, False)):
        monkeypatch.setattr(memory_mapped.shutil, "disk_usage", lambda place, free=free: usage._replace(free=free))
        if fits:
            Filling(expected).add(b"a")
            continue
        with pytest.raises(DataError, match=r"scratch: the records .* the environment variable TMPDIR"):
            Filling(expected).add(b"a")


def test_a_disk_that_fills_up_is_told(on_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Filling()
    whole.add(b"a")

    class Full:
        def write(self, data: object) -> None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(whole, "_file", Full())
    with pytest.raises(DataError, match="TMPDIR"):
        whole.add(b"b")


@pytest.mark.usefixtures("in_pieces")
def test_every_conversion_is_the_same_on_the_disk(
    tmp_path: Path, on_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inverted, resized, scaled, rounded, unpacked, dealt, and without records that have no label."""
    sources = {
        "bytes": as_folder(tmp_path / "bytes", images=IMAGES, labels=LABELS),
        "deep": as_folder(tmp_path / "deep", images=IMAGES.astype(np.uint16), labels=LABELS),
        "floats": as_folder(tmp_path / "floats", images=IMAGES / 255, labels=LABELS),
        "squeezed": str(tmp_path / "squeezed.npz"),
        "parts": as_folder(tmp_path / "parts", images=IMAGES, labels=np.where(LABELS == 2, -1, LABELS)),
    }
    np.savez_compressed(sources["squeezed"], images=np.asfortranarray(IMAGES), labels=LABELS)
    monkeypatch.setattr(npz, "MAP_FROM", 1)
    ways = [
        ("bytes", {"invert": True}), ("bytes", {"shape": (3, 7, 9)}), ("floats", {}), ("squeezed", {}),
        ("deep", {"pixel_range": (0, 300)}), ("parts", {"missing_label": "drop"}), ("deep", {}),
    ]  # fmt: skip
    for name, how in ways:
        monkeypatch.setattr(memory_mapped, "SHARE", 0.0)
        found = read(sources[name], Reading(**how))
        monkeypatch.setattr(memory_mapped, "SHARE", 0.25)
        expected = read(sources[name], Reading(**how))
        assert memory_mapped.is_nameless(found.images) and not memory_mapped.is_nameless(expected.images), (name, how)
        assert np.array_equal(found.images, expected.images) and np.array_equal(found.labels, expected.labels)
        assert {*found.notes} - {*expected.notes} == {memory_mapped.ON_DISK}
    assert not [*on_disk.iterdir()]


@pytest.mark.usefixtures("in_pieces")
def test_a_public_share_of_mapped_records_is_dealt_to_the_disk(
    tmp_path: Path, on_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(npz, "MAP_FROM", 1)
    folder = as_folder(tmp_path / "arrays", images=IMAGES, labels=LABELS)
    card = DataCard(shape=(1, 6, 5), classes=3, declared_size=40)
    found = DataSources.of(folder, share=0.3).read_unconfined(card)
    public = made_public(Records(IMAGES, LABELS), share=0.3, salt=SALT)
    assert found.public is not None and 3 < public.sum() < 47
    assert np.array_equal(found.private.images, IMAGES[~public]) and np.array_equal(found.public.images, IMAGES[public])
    assert memory_mapped.is_nameless(found.private.images) and memory_mapped.ON_DISK in found.facts.notes


def test_rows_of_mapped_arrays_are_the_rows(tmp_path: Path, on_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_mapped, "_ROWS", 7)
    for whole in (IMAGES, 99 * IMAGES[:, 0, 0].astype(np.int16)):  # pictures, and codes of a table
        np.save(tmp_path / "a.npy", whole)
        array = np.load(tmp_path / "a.npy", mmap_mode="r")
        for positions in (
            np.arange(0, 50, 2),
            np.arange(50) % 3 == 0,
            np.array([2, 1, 1, 40, 3, 5, 6, 7]),
            np.arange(3),
        ):
            found = chosen_rows(array, positions)
            assert np.array_equal(found, whole[positions]) and found.dtype == whole.dtype
        assert memory_mapped.is_nameless(chosen_rows(array, np.arange(8))) and not memory_mapped.is_nameless(array)


def resident(array: np.ndarray) -> list[bool]:
    """Of each page of a mapped array whether it is in memory."""
    libc, start = ctypes.CDLL(None, use_errno=True), np.frombuffer(array._mmap, np.uint8).ctypes.data
    found = (ctypes.c_ubyte * -(-len(array._mmap) // mmap.PAGESIZE))()
    assert libc.mincore(ctypes.c_void_p(start), ctypes.c_size_t(len(array._mmap)), found) == 0
    return [bool(page & 1) for page in found]


def test_the_pages_of_a_draw_are_asked_for_before_they_are_read(tmp_path: Path) -> None:
    """All pages of all rows, and none far away; rows that lie across pages and at the end too."""
    np.save(tmp_path / "a.npy", RNG.integers(0, 256, (20_000, 1, 28, 28), dtype=np.uint8))
    array = np.load(tmp_path / "a.npy", mmap_mode="r")
    with (tmp_path / "a.npy").open("rb") as file:
        os.fdatasync(file.fileno())  # os.fsync does nothing here: tests/conftest.py
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if any(resident(array)):
        pytest.skip("this file system does not drop pages")
    positions = np.array([0, 5, 700, 10_004, 19_999])
    begins = 128 + 784 * positions  # behind the head of the file
    wanted = {int(page) for begin in begins for page in (begin // mmap.PAGESIZE, (begin + 783) // mmap.PAGESIZE)}
    assert len(wanted) > len(positions) - 1
    memory_mapped.ask_for(array[10:], positions[2:] - 10)
    memory_mapped.ask_for(array[:, 0], positions[:2])
    for _ in range(100):
        there = resident(array)
        if all(there[page] for page in wanted):
            break
        time.sleep(0.1)
    assert all(there[page] for page in wanted) and sum(there) < len(there) / 4
    assert np.array_equal(chosen_rows(array, positions), np.array(array)[positions])
    memory_mapped.ask_for(np.zeros((3, 2)), np.array([0]))
    memory_mapped.ask_for(array[:0], np.array([], np.int64))


# Workers


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three pictures are many, and there are two processors."""
    monkeypatch.setattr(decode_workers, "_ALONE", 3)
    monkeypatch.setattr(decode_workers, "_FILES", 4)
    monkeypatch.setattr(decode_workers, "_processors", lambda: 2)


def pictures(folder: Path, count: int = 30) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    for at in range(count):
        picture = Image.fromarray(IMAGES[at, 0])
        if at == count - 1:
            picture.putalpha(128)
        picture.save(folder / f"{at:03}.png")
    return sorted(folder.iterdir())


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("form", ["files", "tar", "parquet"])
def test_workers_give_the_same_pictures_in_the_same_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    paths = pictures(tmp_path / "class" / "a")
    source = str(tmp_path / "class")
    if form == "tar":
        source = str(tmp_path / "a.tar")
        with tarfile.open(source, "w") as tar:
            for at, path in enumerate(paths):
                (tmp_path / "cls").write_text(str(at % 3))
                tar.add(path, f"{at:03}.png")
                tar.add(tmp_path / "cls", f"{at:03}.cls")
    elif form == "parquet":
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        source = str(tmp_path / "a.parquet")
        table = pa.table({"image": [path.read_bytes() for path in paths], "label": [at % 3 for at in range(30)]})
        pq.write_table(table, source)
    started = []

    def give(
        self: decode_workers._Worker, given: list[decode_workers.Source], give=decode_workers._Worker.give
    ) -> None:
        started.append(self)
        give(self, given)

    monkeypatch.setattr(decode_workers._Worker, "give", give)
    found = read(source, split="train")
    assert len({*started}) == 2 and len(started) == 7
    monkeypatch.setattr(decode_workers, "_ALONE", 100)
    alone = read(source, split="train")
    assert len(started) == 7
    assert np.array_equal(found.images, alone.images) and np.array_equal(found.labels, alone.labels)
    assert found.notes == alone.notes and len(found.notes) == 1
    assert np.array_equal(found.images[:29], IMAGES[:29])


@pytest.mark.usefixtures("many")
def test_damaged_pictures_are_named_in_order_whoever_decodes_them(tmp_path: Path) -> None:
    paths = pictures(tmp_path)
    for at in (25, 11):
        paths[at].write_bytes(b"not a picture")
    with pytest.raises(
        DataError, match=r"2 problems with the data:\n  .*011\.png, .*025\.png: this cannot be read as a picture"
    ) as refused:
        read_files(paths, Decoder())
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


@pytest.mark.usefixtures("many")
def test_a_worker_that_is_killed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def give(
        self: decode_workers._Worker, given: list[decode_workers.Source], give=decode_workers._Worker.give
    ) -> None:
        self._process.kill()
        self._process.wait()
        give(self, given)

    monkeypatch.setattr(decode_workers._Worker, "give", give)
    with pytest.raises(DataError, match="process that decodes pictures has ended"):
        read_files(pictures(tmp_path), Decoder())


@pytest.mark.usefixtures("many")
def test_heads_are_counted_here(tmp_path: Path) -> None:
    pictures(tmp_path / "a")
    looked, _ = sizes(str(tmp_path))
    assert looked.sizes == {(6, 5): 30}
    assert isinstance(looked, Sizer)


KILLED = """
import os, sys
from pathlib import Path
import numpy as np
from gossamer.data import memory_mapped
from gossamer.data.sources.pictures import decode_workers
from gossamer.data.sources.pictures.image_files import Decoder
memory_mapped.SHARE, decode_workers._ALONE, decode_workers._FILES = 0.0, 1, 2
decode_workers._processors = lambda: 2
class Worker(decode_workers._Worker):
    def give(self, given):
        print(self._process.pid, flush=True)
        super().give(given)
decode_workers._Worker = Worker
def sources():
    for at in range(10):
        if at == 6:
            print("now", flush=True)
            sys.stdin.read()
        yield str(at), Path(sys.argv[1])
whole = memory_mapped.Filling()
for where, pixels in Decoder().read_all(sources()):
    whole.add(pixels)
"""


def test_nothing_outlives_a_process_that_is_killed(tmp_path: Path) -> None:
    """kill -9 in the middle: no file, and no worker, which would hold pictures."""
    place, picture = tmp_path / "scratch", pictures(tmp_path / "a", 1)[0]
    place.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(picture)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(place), "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        said = [*itertools.takewhile(lambda line: line != "now", map(str.strip, process.stdout))]
        open_files = [str(each.readlink()) for each in Path(f"/proc/{process.pid}/fd").iterdir()]
        assert any(str(place) in each for each in open_files), "it has decoded to the disk by now"
        process.send_signal(signal.SIGKILL)
    assert len(said) == 2 and not [*place.iterdir()]
    for pid in said:
        for _ in range(200):
            if not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split(")")[1][:3]:
                break
            subprocess.run(["sleep", "0.1"], check=True)
        else:
            raise AssertionError("a worker went on")


# Constant memory

LIMITED = """
import resource, sys
import numpy as np
from gossamer.data import memory_mapped
from gossamer.data.card import DataCard
from gossamer.kinds import pictures, tables
from gossamer.run.storage.data_sources import DataSources
def data():
    return next(1024 * int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData"))
memory_mapped.free_memory = lambda: 4 << 20
source, rest = sys.argv[1], eval(sys.argv[2])
card = DataCard(shape=rest.pop("shape", (1, 28, 28)), classes=10, declared_size=100_000, invert=rest.pop("invert", False))
read = DataSources.of(source, **rest)
limit = data() + (48 << 20)
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
found = read.read_unconfined(card)
drawn = found.private.take(np.arange(0, len(found.private), 1000))
print(len(found.private) + (len(found.public) if found.public else 0), drawn.images.shape)
"""


@pytest.mark.parametrize(
    ("form", "rest"),
    [
        ("npy", {}),
        pytest.param("npy", {"share": 0.1}, marks=pytest.mark.slow),
        pytest.param("npy", {"invert": True}, marks=pytest.mark.slow),
        pytest.param("squeezed", {}, marks=pytest.mark.slow),
        pytest.param("idx.gz", {}, marks=pytest.mark.slow),
    ],
)
def test_records_larger_than_the_memory_are_read(tmp_path: Path, form: str, rest: dict[str, object]) -> None:
    """100,000 records of 78 MB, in a process that may take 48 MB (of anonymous memory) more than its libraries."""
    n = 100_000
    folder, labels = tmp_path / "data", np.arange(n) % 10
    folder.mkdir()
    if form == "idx.gz":
        for name, array in zip(idx.NAMES["train"], (np.zeros((n, 28, 28), np.uint8), labels), strict=True):
            with gzip.open(folder / f"{name}.gz", "wb", compresslevel=1) as file:
                file.write(
                    struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()
                )
    elif form == "squeezed":
        np.savez_compressed(tmp_path / "data.npz", images=np.zeros((n, 28, 28), np.uint8), labels=labels)
        folder = tmp_path / "data.npz"
    else:
        whole = np.lib.format.open_memmap(folder / "images.npy", "w+", np.uint8, (n, 28, 28))
        whole[:, 0].view()[:, :4] = np.arange(n, dtype=np.uint32)[:, None].view(np.uint8)  # a share goes by the pixels
        np.save(folder / "labels.npy", labels)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(folder), repr(rest)], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("100000 (")


def test_the_limit_of_that_test_bites(tmp_path: Path) -> None:
    """As much as one copy of the records does not fit."""
    script = "import resource\nresource.setrlimit(resource.RLIMIT_DATA, (48 << 20,) * 2)\nbytearray(78_400_000)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "MemoryError" in done.stderr and resource.getrlimit(resource.RLIMIT_DATA)[0] != 48 << 20


MEASURED = """
import sys, threading, time
from pathlib import Path
from gossamer.data import memory_mapped
from gossamer.data.card import DataCard
from gossamer.kinds import pictures, tables
from gossamer.run.storage.data_sources import DataSources
def anonymous():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
def watch():
    while True:
        most[0] = max(most[0], anonymous())
        time.sleep(0.002)
memory_mapped.free_memory = lambda: 0
most = [0]
threading.Thread(target=watch, daemon=True).start()
for source in sys.argv[1:]:
    time.sleep(0.02)
    most[0] = anonymous()
    card = DataCard(shape=(1, 28, 28), classes=4, declared_size=100)
    found = DataSources.of(source).read_unconfined(card).private
    time.sleep(0.02)
    print(len(found), most[0])
    del found
"""


def stored(form: str, place: Path, count: int, picture: bytes) -> Path:
    """So many copies of a picture, in four classes."""
    if form == "folder":
        for label in range(4):
            (place / str(label)).mkdir(parents=True)
        for at in range(count):
            (place / str(at % 4) / f"{at:06}.png").write_bytes(picture)
        return place
    if form == "tar":
        place = place.with_suffix(".tar")
        with tarfile.open(place, "w") as tar:
            for at in range(count):
                for ending, content in (("png", picture), ("cls", str(at % 4).encode())):
                    member = tarfile.TarInfo(f"{at:06}.{ending}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))
        return place
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    place = place.with_suffix(".parquet")
    table = pa.table({"image": [picture] * count, "label": [at % 4 for at in range(count)]})
    pq.write_table(table, place, use_dictionary=False, row_group_size=1_000)
    return place


@pytest.mark.parametrize(
    ("form", "most"),
    slow_among([("tar", 250), ("parquet", 250), ("folder", 800)], {("tar", 250), ("parquet", 250), ("folder", 800)}),
)
def test_pictures_are_decoded_in_constant_memory(tmp_path: Path, form: str, most: int) -> None:
    """Peak anonymous memory of 3,000 and of 12,000 pictures, in a process that may keep no array in memory.

    A picture has 784 bytes decoded. What may grow with N is its digest of 32 bytes, its label while it is read and, in a
    folder, its name: 130 bytes in a tar, 90 in Parquet and 600 in a folder were measured, from 20,000 to 80,000 pictures (in
    folders, from 10,000 to 40,000). 2 MB are for what an allocator keeps.
    """
    file = io.BytesIO()
    Image.fromarray(np.zeros((28, 28), np.uint8)).save(file, "png")
    sizes_of = (100, 3_000, 12_000)  # the first loads what the form needs
    sources = [str(stored(form, tmp_path / f"{n}", n, file.getvalue())) for n in sizes_of]
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *sources], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    counts, peaks = zip(*((int(word) for word in line.split()) for line in done.stdout.splitlines()), strict=True)
    assert counts == sizes_of
    assert peaks[2] - peaks[1] < most * 9_000 + 2e6


# What a run does with its records


@pytest.mark.parametrize("seed", range(5))
def test_units_are_taken_as_by_looking_at_every_record(seed: int) -> None:
    rng = np.random.default_rng(seed)
    units = rng.integers(0, 20, 50)
    units[rng.integers(50)] = 22  # units 20 and 21 have no record
    records = Records(IMAGES, LABELS, units, np.array([f"unit {at}" for at in range(23)]))
    assert records.population == 23
    for chosen in (
        np.flatnonzero(rng.random(23) < 0.4),
        np.arange(0),
        np.arange(23),
        np.array([20, 21]),
        np.array([22]),
    ):
        there = np.flatnonzero(np.isin(units, chosen))
        taken = records.take(chosen)
        assert np.array_equal(taken.images, IMAGES[there]) and np.array_equal(taken.labels, LABELS[there])
        assert taken.names is not None and taken.names[taken.units].tolist() == [f"unit {at}" for at in units[there]]
        assert len(taken.names) == len(chosen)
    assert Records(IMAGES[:0], LABELS[:0], units[:0]).population == 0


def test_who_takes_all_copies_nothing() -> None:
    for units in (None, np.arange(50) // 2):
        records = Records(IMAGES, LABELS, units)
        assert records.take(np.arange(records.population)).images is IMAGES


MANY = RNG.integers(0, 256, (9_000, 1, 2, 3), dtype=np.uint8)
OF_NINE_THOUSAND = {
    "labels": np.arange(9_000) % 10, "units": np.arange(9_000) // 2, "names": np.array([f"é{at}" for at in range(4_500)]),
}  # fmt: skip


@pytest.mark.parametrize("piece", [1, 600, 1 << 20])
@pytest.mark.parametrize("holds", ["memory", "file", "no memory"])
def test_records_are_known_again_whatever_holds_them(
    tmp_path: Path, on_disk: Path, monkeypatch: pytest.MonkeyPatch, holds: str, piece: int
) -> None:
    """Fingerprint and mark by their definitions; the mark is the one by which account books of before know records."""
    monkeypatch.setattr(fingerprint, "_BYTES", piece)
    monkeypatch.setattr(fingerprint, "ROOM", 0 if holds == "no memory" else 1 << 26)
    images = MANY
    if holds == "file":
        np.save(tmp_path / "a.npy", MANY)
        images = np.load(tmp_path / "a.npy", mmap_mode="r")
    each = [hashlib.sha256(image.tobytes()).digest() for image in MANY]
    found = identify(Records(images, **OF_NINE_THOUSAND))
    assert found.mark == hashlib.sha256(b"(1, 2, 3)" + b"".join(sorted(each))).hexdigest()
    text = b"gossamer records 2 [9000, [1, 2, 3], true, true, 4500]" + b"".join(each)
    text += OF_NINE_THOUSAND["labels"].tobytes() + OF_NINE_THOUSAND["units"].tobytes()
    names = OF_NINE_THOUSAND["names"].tolist()
    text += (json.dumps(names[:4096]) + json.dumps(names[4096:])).encode()
    assert found.fingerprint == hashlib.sha256(text).hexdigest()
    assert digests(images).tobytes() == b"".join(each)
    assert memory_mapped.is_nameless(digests(images)) == (holds == "no memory")
    assert digests(images.transpose(0, 1, 3, 2)).tobytes() == b"".join(
        hashlib.sha256(image.T.tobytes()).digest() for image in MANY[:, 0]
    )
    assert not [*on_disk.iterdir()]


def test_records_in_which_anything_changed_are_not_known_again() -> None:
    """The last record of each column; the mark is of pictures alone, in any order."""
    whole = Records(MANY, **OF_NINE_THOUSAND)
    found, known = identify(whole), {identify(whole).fingerprint}
    pixel = MANY.copy()
    pixel[-1, 0, 0, 0] ^= 1
    label, unit = OF_NINE_THOUSAND["labels"].copy(), OF_NINE_THOUSAND["units"].copy()
    name = OF_NINE_THOUSAND["names"].copy()
    label[-1], unit[-1], name[-1] = 3, 0, "x"
    others = [
        replace(whole, labels=label), replace(whole, units=unit), replace(whole, names=name), replace(whole, names=None),
        replace(whole, units=None, names=None), Records(MANY[::-1], **OF_NINE_THOUSAND),
    ]  # fmt: skip
    for other in others:
        assert identify(other).mark == found.mark
        known.add(identify(other).fingerprint)
    for other in (
        replace(whole, images=pixel),
        replace(whole, images=MANY.reshape(-1, 1, 3, 2)),
        Records(MANY[1:], label[1:]),
    ):
        assert identify(other).mark != found.mark
        known.add(identify(other).fingerprint)
    assert len(known) == 10
    assert identify(Records(MANY[:0], label[:0])).mark == ""


@pytest.mark.usefixtures("in_pieces")
def test_a_shared_picture_is_found_in_every_piece() -> None:
    private = Records(IMAGES[:40], LABELS[:40])
    for at in (0, 6, 7, 39):
        for other in (Records(IMAGES[[45, at]], LABELS[:2]), Records(IMAGES[[*range(40, 50), at] * 5], LABELS[:55])):
            assert share_a_picture(private, other) and share_a_picture(other, private)
    assert not share_a_picture(private, Records(IMAGES[40:], LABELS[40:]))


def test_tensors_go_to_a_gpu_by_pinned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked of PyTorch, without a GPU."""
    asked = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: (asked.append("pin"), self)[1])
    monkeypatch.setattr(torch.Tensor, "to", lambda self, device, **rest: (asked.append((device, rest)), self)[1])
    records = Records(IMAGES, LABELS)
    records.tensors("cpu")
    assert asked == []
    found, classes = records.tensors(torch.device("cuda"))
    assert asked == ["pin", (torch.device("cuda"), {"non_blocking": True})] * 2
    assert np.array_equal(classes.numpy(), LABELS) and found.shape == IMAGES.shape


@pytest.mark.gpu
def test_a_gpu_has_the_same_tensors() -> None:
    for here, there in zip(Records(IMAGES, LABELS).tensors(), Records(IMAGES, LABELS).tensors("cuda"), strict=True):
        assert torch.equal(here, there.cpu())


def test_what_is_filled_is_checked_against_its_shape() -> None:
    with pytest.raises(ValueError, match="reshape"):
        filled(iter([IMAGES[:3]]), (4, 1, 6, 5))
