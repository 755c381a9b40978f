"""`tools/data.py`, against a server in this process: digests decide, and a wrong file is not kept."""

import gzip
import hashlib
import importlib.util
import struct
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from shared_data import SHARED, needs

TOOL = Path(__file__).resolve().parents[1] / "tools" / "data.py"
CONTENT = b"0,1\n2,3\n"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def data() -> ModuleType:
    spec = importlib.util.spec_from_file_location("data_tool", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def public(tmp_path: Path) -> Path:
    folder = tmp_path / "public"
    folder.mkdir()
    (folder / "t.csv").write_bytes(CONTENT)
    (folder / "t.gz").write_bytes(gzip.compress(CONTENT, mtime=1))
    return folder


@pytest.fixture
def address(public: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(public)))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def entry(data: ModuleType, address: str, name: str, content: bytes = CONTENT):
    return data.Download(f"set/{name}", f"{address}/{name}", hashlib.sha256(content).hexdigest())


def test_right_files_are_fetched_once(data: ModuleType, address: str, public: Path, tmp_path: Path) -> None:
    files = [entry(data, address, "t.csv"), entry(data, address, "t.gz")]
    assert data.fetch(files, tmp_path / "here") == []
    found = {path.name: path.read_bytes() for path in (tmp_path / "here" / "set").iterdir()}
    assert found == {path.name: path.read_bytes() for path in public.iterdir()}
    for path in public.iterdir():
        path.unlink()
    assert data.fetch(files, tmp_path / "here") == [], "nothing is asked of the server again"


def test_a_mirror_may_pack_anew(data: ModuleType, address: str, public: Path, tmp_path: Path) -> None:
    first = (public / "t.gz").read_bytes()
    (public / "t.gz").write_bytes(gzip.compress(CONTENT, compresslevel=1, mtime=2))
    assert (public / "t.gz").read_bytes() != first
    assert data.fetch([entry(data, address, "t.gz")], tmp_path) == []


@pytest.mark.parametrize("name", ["t.csv", "t.gz"])
def test_other_content_is_not_kept(data: ModuleType, address: str, tmp_path: Path, name: str) -> None:
    problems = data.fetch([entry(data, address, name, b"other"), entry(data, address, "t.csv")], tmp_path / "here")
    assert len(problems) == 1
    assert f"{address}/{name} gives other content than expected" in problems[0]
    assert [path.name for path in (tmp_path / "here" / "set").iterdir()] == ["t.csv"], (
        "the right one, of the other entry"
    )


@pytest.mark.parametrize("damage", ["cut", "no gzip", "too long"])
def test_a_damaged_archive_is_not_kept(
    data: ModuleType, address: str, public: Path, tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "LARGEST", 1_000)
    packed = {"cut": gzip.compress(CONTENT)[:-9], "no gzip": CONTENT, "too long": gzip.compress(bytes(1_001))}[damage]
    (public / "t.gz").write_bytes(packed)
    content = bytes(1_001) if damage == "too long" else CONTENT
    assert len(data.fetch([entry(data, address, "t.gz", content)], tmp_path / "here")) == 1
    assert not (tmp_path / "here").exists()


def test_a_missing_file_is_named(data: ModuleType, address: str, tmp_path: Path) -> None:
    (problem,) = data.fetch([entry(data, address, "absent.csv")], tmp_path / "here")
    assert f"{address}/absent.csv gives no file: HTTP Error 404" in problem


def test_a_file_with_other_content_is_left_alone(data: ModuleType, address: str, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "t.csv").write_bytes(b"mine")
    (problem,) = data.fetch([entry(data, address, "t.csv")], tmp_path)
    assert "is there with other content" in problem
    assert (tmp_path / "set" / "t.csv").read_bytes() == b"mine"


def test_the_writers_are_the_third_number_of_a_row(data: ModuleType, tmp_path: Path) -> None:
    rows = np.arange(70_000)[:, None] % [10, 5, 3_000, 7, 7, 7, 7, 7]
    for part in ("train", "test"):
        packed = struct.pack(">III", 0xC02, len(rows), 8) + rows.astype(">i4").tobytes()
        (tmp_path / f"qmnist-{part}-labels-idx2-int.gz").write_bytes(gzip.compress(packed, 1))
    data.write_writers(tmp_path)
    with np.load(tmp_path / "mnist_writer_ids.npz") as made:
        for part, count in (("train", 60_000), ("test", 10_000)):
            assert np.array_equal(made[f"{part}_writer"], np.arange(count) % 3_000)
            assert np.array_equal(made[f"{part}_hsf"], np.arange(count) % 5)
            assert np.array_equal(made[f"{part}_labels"], np.arange(count) % 10)


def test_without_a_folder_it_says_how_to_call_it(data: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert data.main([]) == data.main(["--help"]) == 2
    assert "python tools/data.py FOLDER" in capsys.readouterr().out


@needs("mnist", "fashion_mnist", "mnist_writers", "adult", "tabular")
def test_the_digests_are_those_of_the_files_that_tests_read(data: ModuleType) -> None:
    assert data.fetch(data.DOWNLOADS, SHARED) == []
