"""What was declared and what was asked for is what a run is made of: the card's size, a preset's settings."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.run.training import presets

Run = Callable[..., Any]


def test_the_rate_is_that_of_the_declared_size_not_of_the_records(
    gossamer: Run, fit_words: list[str], card: Path, tmp_path: Path
) -> None:
    """160 records, 250 declared: 16 expected in a step are a rate of 16/250, on the ledger and on the certificate."""
    card.write_text(card.read_text().replace("160", "250"))
    answer = gossamer(*fit_words)
    assert answer.status == 0, answer.err
    lines = [json.loads(line) for line in (tmp_path / "run" / "ledger.jsonl").read_text().splitlines()]
    (entry,) = next(line["reserve"] for line in lines if "reserve" in line)
    assert entry["event"]["sampling_rate"] == 16 / 250
    certificate = json.loads((tmp_path / "run" / "certificate.json").read_text())
    assert certificate["card"]["declared_size"] == 250
    assert gossamer("verify", tmp_path / "run").status == 0


def test_a_run_has_the_settings_of_its_preset_but_for_those_that_were_given(
    gossamer: Run, fit_words: list[str], tmp_path: Path
) -> None:
    name = "paper-eps10-adaptive"
    assert gossamer(*fit_words, "--preset", name).status == 0
    config = json.loads((tmp_path / "run" / "certificate.json").read_text())["config"]
    given = {"steps": 20, "expected_batch_size": 16, "width": 4, "latent_size": 8}
    of_preset = {key: value for key, value in presets.settings("dpgan", name).items() if key not in given}
    del of_preset["noise_multiplier"]  # --epsilon decides it
    assert of_preset["adaptive"]
    assert {key: config[key] for key in {**of_preset, **given}} == {**of_preset, **given}


def test_the_certificate_repeats_how_deep_pixels_and_missing_labels_were_read(
    gossamer: Run, fit_words: list[str], card: Path, data: Path, tmp_path: Path
) -> None:
    """What the card declares of either stands among the assumptions, and only where it is declared."""
    answer = gossamer(*fit_words)
    assert answer.status == 0, answer.err
    plain = json.loads((tmp_path / "run" / "certificate.json").read_text())["assumptions"]
    assert not any("8 bits" in line or "without a label" in line for line in plain)
    with np.load(data) as held:
        labels = held["labels"].copy()
        labels[3] = -1
        np.savez(data, images=held["images"].astype(np.uint16) * 257, labels=labels)
    card.write_text(f'{card.read_text()}pixel_range = [0, 65535]\nmissing_label = "drop"\n')
    answer = gossamer(*[word if word != str(tmp_path / "run") else str(tmp_path / "deep") for word in fit_words])
    assert answer.status == 0, answer.err
    said = json.loads((tmp_path / "deep" / "certificate.json").read_text())["assumptions"]
    assert (
        "pixels that are not of 8 bits were scaled: 0 became black, 65535 became white, and values beyond them became the "
        "nearer of the two"
    ) in said
    assert (
        "records without a label were left out, which depends on each record alone. The declared size counts the others"
    ) in said
    assert gossamer("verify", tmp_path / "deep").status == 0


def test_plan_config_and_certificate_show_the_default_batch_that_fits_the_declared_size(
    gossamer: Run, fit_words: list[str], card: Path, tmp_path: Path
) -> None:
    """DPGAN's default is 512 records; 160 are declared."""
    at = fit_words.index("--expected-batch-size")
    words = fit_words[:at] + fit_words[at + 2 :]
    answer = gossamer(*words)
    assert answer.status == 0, answer.err
    run = tmp_path / "run"
    for name in ("config.json", "certificate.json"):
        assert json.loads((run / name).read_text())["config"]["expected_batch_size"] == 160
    certificate = json.loads((run / "certificate.json").read_text())
    without = [word for place, word in enumerate(words) if words[max(place - 1, 0)] not in ("--data", "--out")]
    without = [word for word in without if word not in ("--data", "--out")]
    planned = gossamer("plan", *without[1:], "--json").json
    assert planned["sampling_rate"] == 1.0
    assert planned["guarantees"] == certificate["guarantees"]
    assert gossamer("verify", run).status == 0
