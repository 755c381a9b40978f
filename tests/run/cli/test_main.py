"""The command line as scripts use it: words in; status, stdout, stderr and files out."""

import ast
import gzip
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from shared_data import SHARED, needs

import gossamer as package
from gossamer.data.sources.pictures.read import read
from gossamer.data.synthetic.glyphs import draw
from gossamer.files import ANSWERS
from gossamer.run.cli.main import COMMANDS
from gossamer.run.cli.options import sentence_of

Run = Callable[..., Any]


def refused(answer: Any, *says: str) -> None:
    """Exit status 2, nothing on stdout, one paragraph on stderr that says it all, no traceback."""
    assert answer.status == 2, answer.err
    assert answer.out == ""
    paragraph = [line for line in answer.err.strip().split("\n") if line.startswith("gossamer: ")]
    assert len(paragraph) == 1
    assert answer.err.strip().endswith(paragraph[0])
    assert "Traceback" not in answer.err
    for words in says:
        assert words in answer.err, answer.err


def test_the_whole_way(gossamer: Run, fit_words: list[str], data: Path, tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    fitted = gossamer(*fit_words)
    assert fitted.status == 0, fitted.err
    assert fitted.out.startswith("Differentially private: epsilon ")
    assert sorted(path.name for path in run.iterdir()) == [
        "answers.safetensors", "certificate.json", "checkpoint", "config.json", "events.jsonl", "ledger.jsonl",
        "model.safetensors", "report.html", "samples.png",
    ]  # fmt: skip

    assert gossamer("sample", run, "-n", 30, "-o", tmp_path / "synth.npz", "--seed", 1).status == 0
    samples = read(str(tmp_path / "synth.npz"), split="train")
    assert samples.images.shape == (30, 1, 28, 28)
    assert samples.images.dtype == np.uint8

    measured = gossamer(
        "evaluate", run, "--train", data, "--test", data, "-n", 60, "--protocol", "reduced", "--json"
    ).json["metrics"]
    assert [entry["metric"] for entry in measured] == [
        "accuracy",
        "accuracy of the real-data baseline",
        "accuracy of guessing",
    ]
    assert json.loads((run / "metrics.json").read_text()) == measured
    assert all(entry["low"] <= entry["value"] <= entry["high"] and entry["internal"] for entry in measured)

    verified = gossamer("verify", run, "--json")
    assert (verified.status, verified.json["ok"], verified.json["problems"]) == (0, True, [])
    assert min(entry["epsilon"] for entry in verified.json["guarantees"]) <= 10

    assert gossamer("release", run, "-o", out).status == 0
    assert sorted(path.name for path in out.iterdir()) == [
        "README.md", "SHA256SUMS", "answers.safetensors", "certificate.json", "config.json", "croissant.json",
        "ledger.jsonl", "load.py", "model.safetensors", "report.html", "samples.png",
    ]  # fmt: skip
    assert gossamer("verify", out).status == 0
    assert f"{100 * measured[0]['value']:.1f}\u00a0%" in (run / "report.html").read_text()
    released = "".join(path.read_text(errors="replace") for path in out.iterdir() if path.suffix != ".png")
    assert "patients" not in released
    assert "accuracy of" not in released
    assert gossamer("report", run).status == 0
    assert gossamer("resume", run).status == 0
    refused(gossamer(*fit_words), "holds a finished run", "delete the folder")
    held = sorted(path.name for path in out.iterdir())
    refused(gossamer(*fit_words, "--out", out), "is a release, and no run goes there")
    assert sorted(path.name for path in out.iterdir()) == held


def test_plan_reads_no_record(gossamer: Run, card: Path) -> None:
    words = ["--card", card, "--epsilon", 10, "--delta", 1e-3, "--steps", 20, "--expected-batch-size", 16, "--json"]
    answer = gossamer("plan", "dpgan", *words)
    assert answer.status == 0, answer.err
    plan = answer.json
    assert plan["sampling_rate"] == 0.1
    assert plan["steps"] == 20
    assert 9.9 <= min(entry["epsilon"] for entry in plan["guarantees"]) <= 10
    assert {entry["accountant"] for entry in plan["guarantees"]} == {"RDP", "PLD"}
    assert plan["guarantees"][0]["relation"] == "add-or-remove-one"


def test_what_plan_says_is_what_fit_certifies(gossamer: Run, fit_words: list[str], run: Path) -> None:
    words = fit_words[4:8] + fit_words[8:10] + fit_words[12:]
    planned = gossamer("plan", "dpgan", *words, "--json").json
    certificate = json.loads((run / "certificate.json").read_text())
    assert certificate["guarantees"] == planned["guarantees"]


def test_the_non_private_run_says_so(gossamer: Run, fit_words: list[str], tmp_path: Path) -> None:
    words = [*fit_words]
    words[words.index("--epsilon") + 1] = "inf"
    assert gossamer(*words).out.startswith("No formal guarantee: epsilon is infinity")
    assert gossamer("verify", tmp_path / "run", "--json").json["guarantees"][0]["epsilon"] == "inf"


def test_public_records_are_named_and_do_not_count(gossamer: Run, fit_words: list[str], tmp_path: Path) -> None:
    drawn = draw(40, seed=0)
    np.savez(tmp_path / "drawn.npz", images=drawn.images, labels=drawn.labels % 2)
    assert gossamer(*fit_words, "--public", tmp_path / "drawn.npz", "--warm-steps", 3).status == 0
    certificate = json.loads((tmp_path / "run" / "certificate.json").read_text())
    assert certificate["public_data"] == "drawn.npz (40 records, not protected)"
    assert (tmp_path / "run" / ANSWERS).exists()
    assert certificate["plan"][0]["event"]["sampling_rate"] == 16 / 160
    assert str(tmp_path) not in (tmp_path / "run" / "config.json").read_text()


def test_a_public_share_is_split_off_and_not_protected(gossamer: Run, fit_words: list[str], tmp_path: Path) -> None:
    words = [*fit_words, "--public-share", 0.25, "--warm-steps", 3]
    assert gossamer(*words).status == 0
    certificate = json.loads((tmp_path / "run" / "certificate.json").read_text())
    assert certificate["public_data"].startswith("the records that were made public, about 0.25 of all (40 expected)")
    assert certificate["card"]["declared_size"] == 120  # the private part only
    assert not (tmp_path / "run" / ANSWERS).exists(), "only their owner could replay them"
    assert certificate["plan"][0]["event"]["sampling_rate"] == 16 / 120
    planned = gossamer("plan", "dpgan", *fit_words[4:10], *fit_words[12:], "--public-share", 0.25, "--json").json
    assert planned["guarantees"] == certificate["guarantees"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--public-share", "1.5"], "--public-share SHARE must lie between 0 and 1"),
        (["--public-share", "0.001"], "leave some units on both sides"),
        (["--public-share", "0.5", "--public", "glyphs"], "give --public or --public-share, not both"),
    ],
)
def test_a_public_share_that_cannot_be(
    gossamer: Run, fit_words: list[str], tmp_path: Path, words: list[str], says: str
) -> None:
    refused(gossamer(*fit_words, *words), says)
    assert not (tmp_path / "run").exists()


def test_public_bounds_without_public_records_are_refused(gossamer: Run, fit_words: list[str], tmp_path: Path) -> None:
    words = list(fit_words)
    words[1] = "dp-wgan"
    refused(gossamer(*words, "--bounds", "public"), "need public records", "--public-share")
    assert not (tmp_path / "run").exists()


def test_every_form_of_samples(gossamer: Run, run: Path, tmp_path: Path) -> None:
    for name in ("s.npz", "s.csv", "s.parquet", "pictures"):
        assert gossamer("sample", run, "-n", 7, "-o", tmp_path / name).status == 0
    assert len(read(str(tmp_path / "pictures"), split="train")) == 7
    assert len((tmp_path / "s.csv").read_text().splitlines()) == 8
    refused(gossamer("sample", run, "-n", 7, "-o", tmp_path / "s.npz"), "s.npz")


def test_account_prints_a_golden_row(gossamer: Run) -> None:
    answer = gossamer(
        "account", "--sampling-rate", 1 / 469, "--noise-multiplier", 5, "--steps", 325_000, "--delta", 1e-5, "--json"
    )
    epsilon = {entry["accountant"]: entry["epsilon"] for entry in answer.json["guarantees"]}
    assert epsilon["RDP"] == pytest.approx(0.994, abs=0.0006)
    assert epsilon["PLD"] == pytest.approx(0.913, abs=0.0006)


@pytest.mark.parametrize(
    ("given", "solved"),
    [
        (["--sampling-rate", "0.01", "--noise-multiplier", "1.0"], "steps"),
        (["--sampling-rate", "0.01", "--steps", "1000"], "noise_multiplier"),
        (["--noise-multiplier", "1.0", "--steps", "1000"], "sampling_rate"),
    ],
)
def test_account_solves_for_what_is_left_out(gossamer: Run, given: list[str], solved: str) -> None:
    answer = gossamer("account", *given, "--delta", 1e-5, "--epsilon", 2, "--json").json
    assert 1.99 <= min(entry["epsilon"] for entry in answer["guarantees"]) <= 2
    assert answer[solved] > 0


def test_help_lists_every_setting_with_its_words(gossamer: Run) -> None:
    text = gossamer("fit", "dpgan", "--help").out
    for words in (
        "--expected-batch-size",
        "--adaptive / --no-adaptive",
        "Clipping bound: the largest L2 norm",
        "[default: 4,000]",
        "Bie, Kamath",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"--data": "nowhere"}, ["nowhere", "no such file"]),
        ({"--card": "nowhere.toml"}, ["nowhere.toml", "gossamer card"]),
        ({"--epsilon": "0"}, ["--epsilon must be above 0"]),
        ({"--epsilon": "-3"}, ["--epsilon must be above 0"]),
        ({"--epsilon": "lots"}, ["--epsilon", "lots"]),
        ({"--delta": "1"}, ["--delta must lie between 0 and 1"]),
        ({"--delta": "0.01"}, ["not below 1 / 160"]),
        ({"--epsilon": "1e-9", "--delta": "1e-12"}, ["noise multiplier", "1e-09"]),
        ({"--preset": "paper-eps10-fixd"}, ["Did you mean 'paper-eps10-fixed'"]),
        ({"--device": "abacus"}, ["--device abacus"]),
        ({"--precision": "half"}, ["--precision", "'half'", "'bf16'"]),
        ({"--step": "10"}, ["--step", "--steps"]),
        ({"--expected-batch-size": "1000"}, ["--expected-batch-size", "declared size 160"]),
    ],
)
def test_bad_requests(
    gossamer: Run, fit_words: list[str], tmp_path: Path, change: dict[str, str], says: list[str]
) -> None:
    words = [*fit_words]
    for flag, value in change.items():
        if flag in words:
            words[words.index(flag) + 1] = value
        else:
            words += [flag, value]
    refused(gossamer(*words), *says)
    assert not (tmp_path / "run").exists()


def test_a_mistyped_method_or_command_is_answered_with_the_nearest(gossamer: Run) -> None:
    refused(gossamer("fit", "dpgam"), "no METHOD 'dpgam'", "'dpgan'")
    refused(
        gossamer("fit", "--data", "x"), "METHOD comes before --data: `gossamer fit METHOD --data", "dp-mepf, moments"
    )
    refused(gossamer("smaple"), "no command 'smaple'", "'sample'")


def with_pixel(index: int, value: float) -> np.ndarray:
    """160 black images; one pixel of one of them is not a number."""
    images = np.zeros((160, 28, 28))
    images[index, 3, 4] = value
    return images


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"images": np.zeros((160, 28, 28), np.uint8), "labels": np.zeros(159, np.int64)}, ["160", "159"]),
        ({"images": with_pixel(7, np.nan), "labels": np.zeros(160, np.int64)}, ["7"]),
        ({"images": with_pixel(9, np.inf), "labels": np.zeros(160, np.int64)}, ["9"]),
        ({"images": np.zeros((160, 28, 28), np.uint8), "labels": np.arange(160) % 3}, ["records 2, 5, 8, ", "classes = 2"]),
        ({"pictures": np.zeros((160, 28, 28), np.uint8)}, ["pictures"]),
    ],
)  # fmt: skip
def test_bad_data(
    gossamer: Run, fit_words: list[str], data: Path, tmp_path: Path, arrays: dict[str, Any], says: list[str]
) -> None:
    data.unlink()
    np.savez(data, **arrays)
    refused(gossamer(*fit_words), "patients.npz", *says)
    assert not (tmp_path / "run").exists()


def test_a_truncated_gz(gossamer: Run, fit_words: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "mnist"
    folder.mkdir()
    whole = gzip.compress(bytes([0, 0, 8, 3, 0, 0, 0, 160, 0, 0, 0, 28, 0, 0, 0, 28]) + bytes(160 * 28 * 28))
    (folder / "train-images-idx3-ubyte.gz").write_bytes(whole[: len(whole) // 2])
    (folder / "train-labels-idx1-ubyte").write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 160]) + bytes(160))
    words = [*fit_words]
    words[words.index("--data") + 1] = str(folder)
    refused(gossamer(*words), "train-images-idx3-ubyte.gz")


def test_a_card_that_contradicts_the_data(gossamer: Run, fit_words: list[str], card: Path, tmp_path: Path) -> None:
    card.write_text("shape = [1, 28, 28]\nclasses = 1\ndeclared_size = 160\n")
    refused(gossamer(*fit_words), "patients.npz", "classes = 1, labels 0 to 0")
    assert not (tmp_path / "run").exists()


def test_an_output_folder_that_is_taken(gossamer: Run, fit_words: list[str], tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("mine")
    refused(gossamer(*fit_words), "is not empty", "--out")
    assert (tmp_path / "run" / "thesis.txt").read_text() == "mine"


def test_an_output_that_cannot_be_a_folder(gossamer: Run, fit_words: list[str], tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    refused(gossamer(*fit_words), "is a file")


def test_edited_files_are_named_with_their_line(gossamer: Run, run: Path, tmp_path: Path) -> None:
    for name, old, new, line in (
        ("ledger.jsonl", '"count": 20', '"count": 19', 2),
        ("certificate.json", '"format": 7', '"format": 2', 3),
    ):
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        shutil.copytree(run, tmp_path / "copy")
        path = tmp_path / "copy" / name
        path.write_text(path.read_text().replace(old, new))
        answer = gossamer("verify", tmp_path / "copy", "--json")
        assert answer.status == 1
        assert not answer.json["ok"]
        assert f"{name}, line {line}:" in answer.err
        refused(gossamer("release", tmp_path / "copy", "-o", tmp_path / "out"), "must not be released")
        assert not (tmp_path / "out").exists()


def test_settings_that_were_edited_do_not_verify(gossamer: Run, run: Path) -> None:
    path = run / "config.json"
    path.write_text(path.read_text().replace('"steps": 20', '"steps": 10'))
    answer = gossamer("verify", run)
    assert answer.status == 1
    assert "config.json" in answer.err


def test_the_model_holds_the_generator_only(run: Path) -> None:
    names = set(load_file(run / "model.safetensors"))
    assert {name.split(".")[0] for name in names} == {"latent_in", "label_in", "up1", "up2", "out"}


def test_evaluating_nothing(gossamer: Run, data: Path, tmp_path: Path) -> None:
    refused(gossamer("evaluate", tmp_path / "nothing.npz", "--train", data, "--test", data), "nothing.npz")
    refused(gossamer("verify", tmp_path / "nothing"), "nothing")
    refused(gossamer("resume", tmp_path / "nothing"), "nothing")
    refused(gossamer("sample", tmp_path / "nothing", "-n", 3, "-o", tmp_path / "s.npz"), "nothing")


def test_the_card_draft_is_a_card(gossamer: Run, data: Path, tmp_path: Path) -> None:
    assert gossamer("card", data, "-o", tmp_path / "draft.toml").status == 0
    text = (tmp_path / "draft.toml").read_text()
    assert text.count("declared public") >= 5
    answer = gossamer(
        "plan", "dpgan", "--card", tmp_path / "draft.toml", "--epsilon", 5, "--delta", 1e-4, "--expected-batch-size", 16
    )
    assert answer.status == 0, answer.err
    refused(gossamer("card", data, "-o", tmp_path / "draft.toml"), "exists")


def test_an_unforeseen_error_keeps_its_message(gossamer: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise ValueError("the record is 123456789")

    monkeypatch.setattr("gossamer.run.training.presets.all_presets", fails)
    answer = gossamer("presets")
    assert answer.status == 1
    assert "unexpected ValueError" in answer.err
    assert "123456789" not in answer.err


def test_presets_are_listed(gossamer: Run) -> None:
    assert gossamer("presets", "--json").json["presets"]["dpgan"]["paper-eps1-fixed"]["noise_multiplier"] == 5.0
    assert "paper-eps1-fixed" in gossamer("presets").out


@needs("mnist")
def test_mnist_by_its_folder(gossamer: Run, tmp_path: Path) -> None:
    card = tmp_path / "mnist.toml"
    assert gossamer("card", SHARED / "mnist", "-o", card).status == 0
    assert "declared_size = 60000" in card.read_text()


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--version"],
        ["presets"],
        ["fit", "--help"],
        ["fit", "gs-wgan", "--help"],
        ["plan", "privae", "--help"],
        ["card", "--help"],
        ["sample", "--help"],
        ["audit", "--help"],
    ],
)
def test_help_loads_neither_torch_nor_the_accountants(words: list[str]) -> None:
    assert loaded_by(words) == []


def test_the_calculator_loads_no_torch() -> None:
    account = ["account", "--sampling-rate", "0.01", "--noise-multiplier", "1", "--steps", "10", "--delta", "1e-5"]
    assert loaded_by(account) == ["dp_accounting", "scipy"]


def loaded_by(words: list[str]) -> list[str]:
    """Which of the heavy packages a command loads, in a process of its own."""
    code = f"""
import sys
import tomllib
from gossamer.run.cli.main import main
try:
    main({words!r})
except SystemExit as ended:
    assert not ended.code
print([name for name in ("dp_accounting", "matplotlib", "scipy", "sklearn", "torch") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return list(ast.literal_eval(done.stdout.splitlines()[-1]))


def test_threads_wait_without_spinning_unless_told_otherwise(gossamer: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for before, after in ((None, "PASSIVE"), ("ACTIVE", "ACTIVE")):
        monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
        if before:
            monkeypatch.setenv("OMP_WAIT_POLICY", before)
        assert gossamer("--version").status == 0
        assert os.environ["OMP_WAIT_POLICY"] == after


def test_commands_stand_in_the_order_of_work_and_nothing_is_cut(gossamer: Run) -> None:
    told = gossamer("--help").out
    places = [told.index(f"\n  {name} ") for name in COMMANDS]
    assert places == sorted(places)
    shown = " ".join(told.split())
    for name, module in COMMANDS.items():
        assert len(sentence_of(module, name)) > 25 and sentence_of(module, name) in shown, name
    for name in ("verify", "fit"):
        assert sentence_of(COMMANDS[name], name) in " ".join(gossamer(name, "--help").out.split())
    assert gossamer().out == told


def test_help_of_a_method_begins_with_an_example_and_leaves_out_what_it_refuses(gossamer: Run) -> None:
    private, without = gossamer("fit", "dpgan", "--help").out, gossamer("fit", "privgan", "--help").out
    assert "gossamer fit dpgan --data DATA --card card.toml --epsilon 10 --delta 1e-5 --out RUN" in private
    assert "gossamer fit privgan --data DATA --card card.toml --out RUN" in without
    for flag in ("--epsilon", "--delta", "--public ", "--public-share"):
        assert flag in private
        assert flag not in without


def test_help_groups_the_commands(gossamer: Run) -> None:
    headings = [line for line in gossamer("--help").out.splitlines() if line.endswith(":") and line[0] != " "]
    assert headings == ["Options:", "Prepare:", "Train:", "Use:", "Judge:", "Release:", "Budget:"]


def test_a_stop_while_python_imports_is_quiet() -> None:
    code = """
import runpy, sys
class Stopped:
    def find_spec(self, name, path, target=None):
        if name == "click":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Stopped())
runpy.run_module("gossamer", run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_the_installed_program_is_the_one_that_handles_a_stop() -> None:
    settings = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    assert settings["project"]["scripts"]["gossamer"] == "gossamer.__main__:main"


def test_no_program_of_the_working_folder_runs(tmp_path: Path) -> None:
    """Records are often there. `python -m` puts the folder first, and so does an empty entry of PYTHONPATH."""
    for name in ("click", "numpy", "rich", "multiprocessing"):
        (tmp_path / f"{name}.py").write_text("print('a program of strangers runs')\n")
    source = str(Path(package.__file__).parents[1])
    environ = {name: value for name, value in os.environ.items() if not name.startswith("COV")}  # it imports them first
    starts = (
        "import subprocess, sys; from gossamer.__main__ import main; sys.argv = ['gossamer', 'presets']\n"
        "try: main()\nfinally: subprocess.run([sys.executable, '-c', 'import multiprocessing, click'], check=True)"
    )
    for words in (["-m", "gossamer", "presets"], ["-c", starts]):
        for path in (source, f"{os.pathsep}{source}"):
            done = subprocess.run(
                [sys.executable, *words], cwd=tmp_path, env={**environ, "PYTHONPATH": path}, capture_output=True, text=True,
                check=True,
            )  # fmt: skip
            assert "moments" in done.stdout and "strangers" not in done.stdout
