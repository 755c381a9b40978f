"""The report: the promise in words and numbers, nothing from elsewhere, no internal figure in a page to hand out."""

import base64
import io
import itertools
import json
import math
import re
from html.parser import HTMLParser
from importlib import resources

import matplotlib
import numpy as np
import pytest
from PIL import Image

from gossamer.data.samples.grid import sample_grid
from gossamer.errors import RunFolderError
from gossamer.run.report import html, plots
from gossamer.run.report.html import write_report

PLD = {"accountant": "PLD", "epsilon": 9.9798123, "delta": 1e-05, "relation": "add-or-remove-one", "unit": "record"}
RDP = {**PLD, "accountant": "RDP", "epsilon": 10.6812}
NONE = {**PLD, "accountant": "none", "epsilon": "inf"}
METRICS = [
    {"metric": "accuracy", "value": 0.87, "low": 0.863, "high": 0.876, "n": 10_000, "computed_on": "10,000 records A"},
    {
        "metric": "accuracy of the real-data baseline",
        "value": 0.989,
        "low": 0.987,
        "high": 0.991,
        "n": 10_000,
        "computed_on": "10,000 records B",
    },
    {"metric": "Frechet distance", "value": 18.51, "low": 17.9, "high": 19.2, "n": 5, "computed_on": "5 seeds"},
]


def make_certificate(**changes):
    gaussian = {"event": "Gaussian", "noise_multiplier": 1.07}
    return {
        "statement": "Differentially private: epsilon 9.980 at delta 1e-05, add-or-remove-one record.",
        "format": 1,
        "method": "dpgan",
        "guarantee": PLD,
        "guarantees": [RDP, PLD],
        "plan": [{"event": {"event": "PoissonSampled", "sampling_rate": 512 / 60_000, "of": gaussian}, "count": 4000}],
        "reasons": [],
        "assumptions": ["declared size: 60,000 records", "shape 1 x 28 x 28, 10 classes, label prior uniform"],
        "public_data": "glyphs (20,000 records, not protected)",
        "covered": ["model.safetensors, and any number of samples drawn from it"],
        "not_covered": ["metrics.json and attacks.json: they are computed on real records"],
        "adds_up": "Every other run on the same records adds to this figure, whoever made it.",
        "card": {"title": "MNIST", "shape": [1, 28, 28], "classes": 10, "declared_size": 60_000, "unit": "record"},
        "config": {"noise_multiplier": 1.07, "steps": 4000, "adaptive": True, "generator_learning_rate": 2e-4},
        "model": {"file": "model.safetensors", "sha256": "a1" * 32},
        "ledger": {"file": "ledger.jsonl", "lines": 4002, "last_hash": "c3" * 32},
        "versions": {"gossamer": "0.1.0", "torch": "2.13.0", "dp_accounting": "0.6.0"},
        "created": "2026-11-21",
        "declared": {},
        "facts": {},
        "figures": {},
        **changes,
    }


def make_run(folder, *, metrics=METRICS, events=400, **changes):
    """A RUN folder with what the report reads, around random pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "certificate.json").write_text(json.dumps(make_certificate(**changes)))
    images = np.random.default_rng(0).integers(0, 256, (100, 1, 28, 28), dtype=np.uint8)
    (folder / "samples.png").write_bytes(sample_grid(images, np.arange(100) % 10, columns=10))
    lines = [{"kind": "warm", "step": 10, "values": {"generator_loss": 0.5}}]
    for i in range(1, events + 1):
        values = {
            "generator_loss": 0.7 + 0.3 * math.sin(i / 30),
            "accuracy_on_fakes": 0.9 - i / 4000,
            "released_norm": 500 + (i * 7919) % 97,
            "n_D": 10,
            "epsilon_spent": 10.68 * math.sqrt(i / events),
        }
        lines.append({"kind": "step", "step": 10 * i, "values": values})
    (folder / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if metrics is not None:
        (folder / "metrics.json").write_text(json.dumps(metrics))
    return folder


class Page(HTMLParser):
    """Tags, attributes and visible words of a page; complains about tags that do not close."""

    VOID = frozenset({"meta", "img", "br", "path", "use", "link"})

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self.open = [], [], []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "title"} & set(self.open):
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def read_page(folder, **options):
    return Page(write_report(folder, **{"internal": True, **options}).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("count", "epsilon", "runs", "figure"),
    [
        pytest.param(1, 5371.2341, "1 earlier run", "5,371.235", marks=pytest.mark.slow),
        (12, 7.0, "12 earlier runs", "7.000"),
        (2, "inf", "2 earlier runs", "infinite"),
    ],
)
def test_the_sum_of_all_runs_is_beside_the_epsilon_of_this_one(tmp_path, count, epsilon, runs, figure):
    """A report headed 3.000 had the 5,372 of all runs far below, in a sentence."""
    together = {**PLD, "epsilon": epsilon, "delta": 3e-05}
    run = make_run(tmp_path, facts={"all_runs": {"earlier_runs": count, "together": together}})
    text = read_page(run).text
    assert f"epsilon, at most 9.980 with {runs} {figure} delta 0.00001" in text
    assert f"With {runs}, epsilon is {figure}." in text
    assert ("at delta 0.00003" in text) is (figure != "infinite")


@pytest.mark.parametrize("known", [None, {"earlier_runs": 0, "together": PLD}])
def test_a_first_run_has_one_epsilon(tmp_path, known):
    page = read_page(make_run(tmp_path, facts={"all_runs": known}))
    assert "epsilon, at most 9.980 delta 0.00001" in page.text
    assert "earlier" not in page.text


def test_states_the_promise_in_words_and_numbers(tmp_path):
    text = read_page(make_run(tmp_path)).text
    for words in (
        "Synthetic records for MNIST",
        "epsilon, at most 9.980",
        "delta 0.00001",
        "protects each record",
        "relation add-or-remove-one",
        "more than 21,600 times as likely as it would be without that record",
        "whether a given record was used is right at most 99.996 % of the time",
        "no more: 1 in 100,000.",
        "with and without one record",
        "PLD , privacy loss distributions 9.980 0.00001",
        "RDP , Rényi differential privacy 10.682 0.00001",
        "4,000 × a sum with Gaussian noise, noise multiplier 1.07, over a Poisson sample at rate 0.008533",
        "Every other run on the same records adds to this figure",
        "declared size: 60,000 records",
        "glyphs (20,000 records, not protected)",
        "any number of samples drawn from it",
        "gossamer verify",
        "tools/check_release.py",
        "a1" * 32,
        "Ledger, 4,002 lines",
        "gossamer 0.1.0, torch 2.13.0, dp_accounting 0.6.0.",
        "noise_multiplier 1.07 steps 4,000 adaptive yes generator_learning_rate 0.0002",
    ):
        assert words in text, words
    assert "No formal guarantee" not in text


def test_infinity_says_no_formal_guarantee_first(tmp_path):
    reason = "privGAN trains on the records without noise"
    statement = f"No formal guarantee: epsilon is infinity, because {reason}."
    run = make_run(tmp_path, guarantee=NONE, guarantees=[NONE], reasons=[reason], statement=statement)
    text = read_page(run).text
    head = text[text.index("Synthetic records for MNIST") + len("Synthetic records for MNIST") :].strip()
    assert head.startswith(f"No formal guarantee. Epsilon is infinity, because {reason}.")
    for absent in ("Covered by the guarantee", "What is promised", "under differential privacy", "guarantee rests"):
        assert absent not in text


def test_infinity_without_noise_gives_the_statement(tmp_path):
    statement = "No formal guarantee: epsilon is infinity, because this run was trained without noise."
    infinite = {**PLD, "epsilon": "inf"}
    text = read_page(make_run(tmp_path, guarantee=infinite, guarantees=[infinite], statement=statement)).text
    assert statement in text


def test_other_relation_and_unit(tmp_path):
    guarantee = {**RDP, "relation": "replace-one", "unit": "writer", "epsilon": 1.0, "delta": 0.0}
    text = read_page(make_run(tmp_path, guarantee=guarantee, guarantees=[guarantee])).text
    assert "one writer exchanged for another" in text
    assert "as it would be with another writer in its place" in text
    assert "which of two writers was used is right at most 73.2 % of the time" in text  # e / (1 + e) = 0.73106
    assert "2.72 times" in text
    assert "holds without exception" in text
    assert "All that one writer contributed is protected together" in text


def test_metrics_in_plain_words_and_marked_internal(tmp_path):
    text = read_page(make_run(tmp_path)).text
    assert (
        "A classifier trained only on these synthetic records gets 87.0 % of real test records right (86.3 to 87.6 %)."
        in text
    )
    assert "The same classifier trained on the real records gets 98.9 % right (98.7 to 99.1 %)." in text
    assert "Frechet distance: 18.51 (17.9 to 19.2)." in text
    assert "not covered by the guarantee" in text
    for metric in METRICS:
        assert metric["computed_on"] in text


def test_a_page_to_hand_out_has_no_internal_figure(tmp_path):
    """With and without the metrics file the page is the same, byte for byte."""
    page = write_report(make_run(tmp_path / "a"), internal=False).read_text(encoding="utf-8")
    text = Page(page).text
    for figure in ("87.0", "86.3", "98.9", "18.51", "records A", "real test records", "Internal", "useful"):
        assert figure not in text, figure
    assert page == write_report(make_run(tmp_path / "b", metrics=None), internal=False).read_text(encoding="utf-8")


def test_loads_nothing_from_elsewhere(tmp_path):
    path = write_report(make_run(tmp_path), internal=True)
    source = path.read_text(encoding="utf-8")
    assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)", re.sub(r"base64,[A-Za-z0-9+/=]+", "", source))
    page = Page(source)
    assert not {"script", "link", "iframe", "object", "embed"} & {tag for tag, _ in page.tags}
    for tag, attributes in page.tags:
        for name in ("src", "href", "srcset", "data", "action"):
            address = attributes.get(name, "#")
            assert address.startswith(("#", "data:image/png;base64,")), f"<{tag} {name}>"
    (image,) = (attributes for tag, attributes in page.tags if tag == "img")
    embedded = base64.b64decode(image["src"].split(",", 1)[1])
    assert embedded == (tmp_path / "samples.png").read_bytes()


def test_is_accessible(tmp_path):
    page = read_page(make_run(tmp_path))
    tags = [tag for tag, _ in page.tags]
    assert tags.count("h1") == 1
    levels = [int(tag[1]) for tag in tags if re.fullmatch("h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert {"header", "main", "footer"} <= set(tags)
    assert all(attributes.get("alt") for tag, attributes in page.tags if tag == "img")
    drawings = [attributes for tag, attributes in page.tags if tag == "svg"]
    assert len(drawings) == 4
    assert all(each["role"] == "img" and each["aria-label"] for each in drawings)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert page.tags[0] == ("html", {"lang": "en"})


def test_colours_have_contrast():
    """WCAG 2.1 AA, 4.5 to 1, for letters on the page, light and dark and in print."""

    def luminance(colour):
        full = colour if len(colour) == 7 else "#" + "".join(2 * c for c in colour[1:])
        parts = [int(full[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    source = (resources.files("gossamer.run.report") / "report.css").read_text(encoding="utf-8")
    palettes = [
        dict(re.findall(r"--([\w-]+): (#\w+)", block)) for block in re.findall(r":root \{(.*?)\}", source, re.S)
    ]
    assert len(palettes) == 3
    pairs = [("ink", "paper"), ("muted", "paper"), ("accent", "paper"), ("alarm", "alarm-wash"), ("ink", "wash")]
    for palette in palettes:
        for letters, ground in pairs:
            low, high = sorted((luminance(palette[letters]), luminance(palette[ground])))
            assert (high + 0.05) / (low + 0.05) >= 4.5, (letters, ground)


def test_escapes_names(tmp_path):
    evil = "<script>alert(1)</script>"
    run = make_run(
        tmp_path,
        card={"title": evil, "classes": 10},
        public_data=evil,
        assumptions=[evil],
        config={evil: evil},
        versions={evil: evil},
        metrics=[{**METRICS[0], "computed_on": evil}, {**METRICS[2], "metric": evil}],
    )
    (run / "events.jsonl").write_text(
        "".join(json.dumps({"kind": "step", "step": i, "values": {evil: i, '"onload="x': i}}) + "\n" for i in range(5))
    )
    page = read_page(run)
    assert "script" not in {tag for tag, _ in page.tags}
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert page.text.count(evil) >= 6


def test_curves_come_from_events_and_leave_out_what_never_changes(tmp_path):
    titles = [attributes["aria-label"] for tag, attributes in read_page(make_run(tmp_path)).tags if tag == "svg"]
    assert titles == [
        "Epsilon spent against steps, up to 10.68 at step 4,000",
        "Generator loss on its own fakes",
        "Accuracy of the discriminator on fresh fakes",
        "Length of the released sum clipped, with noise",
    ]


def test_one_step_makes_no_curve(tmp_path):
    page = read_page(make_run(tmp_path, events=1))
    assert "running bound, against steps" not in page.text
    assert not any(a.get("aria-label", "").startswith("Epsilon spent") for _, a in page.tags)


def test_steps_of_curves_go_on_from_phase_to_phase(tmp_path):
    phases = [
        ("columns of patients", 1),
        ("training of patients", 1),
        ("training of patients", 2),
        ("columns of visits", 1),
    ]
    lines = [{"kind": "step", "phase": phase, "step": step, "values": {"total": 1.0}} for phase, step in phases]
    (tmp_path / "events.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert [event["step"] for event in html._events(tmp_path / "events.jsonl")] == [1, 2, 3, 4]


def test_without_events_and_metrics(tmp_path):
    run = make_run(tmp_path, metrics=None)
    (run / "events.jsonl").unlink()
    page = read_page(run)
    assert "svg" not in {tag for tag, _ in page.tags}
    assert "How useful" not in page.text


def test_written_anew_in_place(tmp_path):
    run = make_run(tmp_path)
    first = write_report(run, internal=True).read_bytes()
    assert write_report(run, internal=True).read_bytes() == first
    assert {path.name for path in run.iterdir()} == {
        "certificate.json", "samples.png", "events.jsonl", "metrics.json", "report.html",
    }  # fmt: skip


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda run: (run / "certificate.json").unlink(), r"has no certificate\.json; finish the run"),
        (lambda run: (run / "samples.png").unlink(), r"holds no model\.safetensors"),
        (lambda run: (run / "certificate.json").write_text("{"), r"certificate\.json is not JSON any more"),
        (lambda run: (run / "certificate.json").write_text("[]"), r"certificate\.json lacks statement"),
        (lambda run: make_run(run, plan=[{"count": 3}]), r"certificate\.json does not hold .*'event'"),
        (lambda run: make_run(run, guarantee={**PLD, "relation": "cousins"}), r"certificate\.json does not hold"),
        (lambda run: make_run(run, model={}), r"certificate\.json does not hold .*sha256"),
        (lambda run: (run / "metrics.json").write_text('[{"metric": "accuracy"}]'), r"metrics\.json .*'value'"),
        (lambda run: (run / "metrics.json").write_text("nonsense"), r"metrics\.json is not JSON"),
        (lambda run: (run / "events.jsonl").write_text('{"kind": "step"}\n'), r"events\.jsonl, line 1"),
    ],
)
def test_damage_is_named_and_leaves_no_page(tmp_path, damage, message):
    run = make_run(tmp_path)
    damage(run)
    with pytest.raises(RunFolderError, match=message):
        write_report(run, internal=True)
    assert not (run / "report.html").exists()


def test_huge_epsilon_stays_readable(tmp_path):
    guarantee = {**PLD, "epsilon": 5000.0}
    text = read_page(make_run(tmp_path, guarantee=guarantee, guarantees=[guarantee])).text
    assert "more than e^5,000.000 times as likely" in text or "more than e^5000.000 times as likely" in text
    assert "is right at most 100 % of the time" in text


def pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGBA"))


def test_sample_grid_puts_classes_in_rows():
    images = np.zeros((5, 1, 20, 20), np.uint8)
    images[:, 0] = np.array([10, 20, 30, 40, 50])[:, None, None]
    labels = np.array([7, 3, 7, 3, 3])
    sheet = pixels(sample_grid(images, labels, columns=3))
    side = 640 // 60 * 20
    gap = sheet.shape[0] - 2 * side
    assert sheet.shape == (2 * side + gap, 3 * side + 2 * gap, 4)
    centres = sheet[side // 2 :: side + gap, side // 2 :: side + gap]
    assert centres[:, :, 0].tolist() == [[20, 40, 50], [10, 30, 0]]
    assert centres[:, :, 3].tolist() == [[255, 255, 255], [255, 255, 0]], "a place left empty is transparent"
    assert (sheet[side : side + gap, :, 3] == 0).all(), "so is the space between"


def test_sample_grid_keeps_colours_and_pixels():
    image = np.random.default_rng(0).integers(0, 256, (1, 3, 8, 9), dtype=np.uint8)
    sheet = pixels(sample_grid(image, np.array([0]), columns=1))
    scale = 640 // 9
    assert (sheet[::scale, ::scale, :3] == image[0].transpose(1, 2, 0)).all()


def test_curve_takes_colours_from_the_page_and_leaves_settings_alone():
    before = dict(matplotlib.rcParams)
    svg = plots.curve([0, 1, 2], [0.0, 4.0, 1.0], x_label="steps & more", title='A "name" <b>')
    assert dict(matplotlib.rcParams) == before
    assert svg.startswith("<svg viewBox=") and svg.rstrip().endswith("</svg>")
    assert "currentColor" in svg and "var(--accent" in svg
    assert not re.search(r"#[0-9a-f]{6}\b(?!\")|<style|font-family|http", re.sub(r"url\(#\w+\)|href=\"#\w+\"", "", svg))
    assert "steps &amp; more" in svg and "<b>" not in svg


def test_curve_draws_the_values():
    """Two curves with one x: the drawn heights are the same line through the values."""
    svg = plots.curve([0, 10, 20, 30], [1.0, 3.0, 2.0, 5.0], x_label="steps", title="heights")
    drawn = re.search(r'<path d="([^"]*)"[^>]*style="[^"]*var\(--accent', svg)
    points = np.array([pair.split() for pair in re.findall(r"[ML] ([\d.]+ [\d.]+)", drawn[1])], dtype=float)
    assert len(points) == 4
    slope = (points[3, 1] - points[0, 1]) / 4.0
    assert points[:, 1] == pytest.approx(points[0, 1] + slope * np.array([0.0, 2.0, 1.0, 4.0]), abs=1e-3)
    assert slope < 0, "SVG counts downwards"
    assert np.diff(points[:, 0]) == pytest.approx(np.diff(points[:, 0])[0], abs=1e-3)
