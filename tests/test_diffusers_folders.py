"""Folders of diffusers, by a stand-in of its call signature: what is read, in which unit, and what is refused."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Self

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gossamer import plugins
from gossamer.data.synthetic.generators import PluginGenerator
from gossamer.errors import RequestError
from gossamer.nets.autoencoders import PluginAutoencoder

SHAPE, SIDE = (3, 8, 8), 16
ABOUT = f'side = {SIDE}\nprompts = ["dark", "bright"]\nsteps = 4\nlicence = "MIT"\ntrained_on = "nothing"\n'


# ------------------------------------------------------------------ the stand-in


class Posterior:
    """As of diffusers_folders: a mean, and samples about it."""

    def __init__(self, mean: Tensor) -> None:
        self.mean = mean

    def mode(self) -> Tensor:
        return self.mean

    def sample(self) -> Tensor:
        return self.mean + torch.randn_like(self.mean)


class AutoencoderKL(nn.Module):
    """Means of 2x2 pixels in [-1, 1], times a weight."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.config, self.weight = config, nn.Parameter(torch.ones(()))

    @classmethod
    def from_pretrained(cls, folder: str, *, local_files_only: bool, use_safetensors: bool) -> Self:
        assert local_files_only
        assert use_safetensors
        net = cls(json.loads((Path(folder) / "config.json").read_text()))
        net.load_state_dict(safetensors.torch.load_file(Path(folder) / "net.safetensors"))
        return net

    def encode(self, given: Tensor) -> Any:
        return SimpleNamespace(latent_dist=Posterior(F.avg_pool2d(given, 2) * self.weight))

    def decode(self, latents: Tensor) -> Any:
        return SimpleNamespace(sample=F.interpolate(latents / self.weight, scale_factor=2.0))


class AutoencoderTiny(AutoencoderKL):
    def encode(self, given: Tensor) -> Any:
        return SimpleNamespace(latents=super().encode(given).latent_dist.mode())


class Pipeline:
    """A shade for each prompt, with noise from the generator. Image to image: as much of the noise as `strength`."""

    asked: list[dict[str, Any]] = []  # noqa: RUF012 (a record of the calls)

    @classmethod
    def from_pretrained(cls, folder: str, *, local_files_only: bool, use_safetensors: bool) -> "Pipeline":
        assert local_files_only
        assert use_safetensors
        if not (Path(folder) / "net.safetensors").is_file():
            raise OSError("no file\nnamed net.safetensors")
        return Pipeline()

    @classmethod
    def from_pipe(cls, _: "Pipeline") -> Self:
        return cls()

    def set_progress_bar_config(self, *, disable: bool) -> None:
        assert disable

    def to(self, device: torch.device) -> None:
        self.device = device

    def __call__(
        self, *, prompt: str, generator: torch.Generator, output_type: str, num_inference_steps: int, **more: Any
    ) -> Any:
        assert output_type == "pt"
        self.asked.append({"prompt": prompt, "steps": num_inference_steps, **more})
        fresh = 0.5 * (prompt == "bright") + 0.2 * torch.rand(1, 3, SIDE, SIDE, generator=generator)
        image, strength = more.get("image", fresh), more.get("strength", 1.0)
        return SimpleNamespace(images=(1 - strength) * image + strength * fresh)


class Change(Pipeline):
    """Image to image."""


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folders kl, tiny and sd in the working folder."""
    fake = ModuleType("diffusers")
    vars(fake).update(
        AutoencoderKL=AutoencoderKL, AutoencoderTiny=AutoencoderTiny, DiffusionPipeline=Pipeline,
        AutoPipelineForText2Image=Pipeline, AutoPipelineForImage2Image=Change, pipelines=SimpleNamespace(stable=1),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "diffusers", fake)
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "examples" / "plugins")
    monkeypatch.chdir(tmp_path)
    before = dict(plugins._added)
    Pipeline.asked.clear()
    config = {"in_channels": 3, "scaling_factor": 0.5, "shift_factor": 0.25}
    for name, more in (("kl", config), ("tiny", {"in_channels": 3, "scaling_factor": 2.0}), ("sd", {})):
        (tmp_path / name).mkdir()
        weights = {"weight": torch.tensor(1.0)}
        safetensors.torch.save_file(weights, tmp_path / name / "net.safetensors")
        kind = {"kl": "AutoencoderKL", "tiny": "AutoencoderTiny"}.get(name)
        (tmp_path / name / "config.json").write_text(json.dumps({"_class_name": kind, **more}))
    index = {
        "_class_name": "StablePipeline",
        "unet": ["diffusers", "UNet"],
        "clip": ["transformers", "Clip"],
        "x": [None, None],
    }
    (tmp_path / "sd" / "model_index.json").write_text(json.dumps(index))
    (tmp_path / "sd.toml").write_text(ABOUT)
    yield tmp_path
    plugins._added.clear()
    plugins._added.update(before)


def pictures(n: int) -> Tensor:
    return torch.randint(256, (n, *SHAPE), generator=torch.Generator().manual_seed(0)) / 255


# ------------------------------------------------------------------ autoencoders


@pytest.mark.parametrize(("folder", "scale", "shift"), [("kl", 0.5, 0.25), ("tiny", 2.0, 0.0)])
def test_latents_are_means_in_the_unit_that_the_folder_states(folder: str, scale: float, shift: float) -> None:
    """Not a sample of the posterior: the test of equal answers passes, and so does the value."""
    plugins.allow(f"diffusers_folders:{folder}")
    net = PluginAutoencoder(f"diffusers_folders:{folder}", SHAPE)
    net.check("cpu")
    means = F.avg_pool2d(pictures(4) * 2 - 1, 2)
    torch.testing.assert_close(net(pictures(4)), ((means - shift) * scale).flatten(1), atol=1e-5, rtol=0)
    back = net.decode(net(pictures(4)))
    torch.testing.assert_close(back, F.interpolate((means + 1) / 2, scale_factor=2), atol=0.6 / 255, rtol=0)


def test_channels_are_those_of_the_folder_and_a_side_may_be_stated(folders: Path) -> None:
    (folders / "kl.toml").write_text('side = 4\nlicence = "MIT"\ntrained_on = "faces"\n')
    plugins.allow("diffusers_folders:kl")
    net = PluginAutoencoder("diffusers_folders:kl", (1, 8, 8))
    assert net.size == 3 * 2 * 2
    assert net.decode(net(pictures(2)[:, :1])).shape == (2, 1, 8, 8)
    origin = plugins.origin("autoencoder", "diffusers_folders:kl")
    assert (origin.licence, origin.trained_on) == ("MIT", "faces")


def test_the_digest_covers_every_file_and_the_weights_as_they_are(folders: Path) -> None:
    def digest() -> str:
        return plugins.origin("autoencoder", "diffusers_folders:kl").weights

    plugins.allow("diffusers_folders:kl")
    found = [digest()]
    net = plugins.load("autoencoder", "diffusers_folders:kl").net
    net.weight.data += 1
    found.append(digest())
    for change in (
        lambda: (folders / "kl" / "README.md").write_text("about"),
        lambda: (folders / "kl.toml").write_text('licence = "MIT"\n'),
        lambda: (folders / "kl" / "README.md").rename(folders / "kl" / "ABOUT.md"),
    ):
        change()
        plugins.allow("diffusers_folders:kl")
        found.append(digest())
    assert len(set(found)) == 5
    plugins.allow("diffusers_folders:kl")
    assert digest() == found[-1]


# ------------------------------------------------------------------ generators


def test_equal_seeds_give_equal_pictures_one_in_a_call() -> None:
    plugins.allow("diffusers_folders:sd")
    program = PluginGenerator("diffusers_folders:sd", SHAPE)
    program.check(2)
    Pipeline.asked.clear()
    noise, labels = torch.randn(6, 2, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 0, 1, 0, 1])
    drawn = program.random(noise, labels)
    assert [call["prompt"] for call in Pipeline.asked] == ["dark", "bright"] * 3
    assert {(call["steps"], call["height"], call["width"]) for call in Pipeline.asked} == {(4, SIDE, SIDE)}
    assert len(drawn.unique(dim=0)) == 6
    assert torch.equal(program.random(noise[2:4], labels[2:4]), drawn[2:4])
    assert drawn[labels == 0].max() < 60
    assert drawn[labels == 1].min() > 120


def test_a_variation_is_image_to_image_as_strong_as_the_degree() -> None:
    """At least one of the steps is made; at 0 a picture stays as it is."""
    plugins.allow("diffusers_folders:sd")
    program = PluginGenerator("diffusers_folders:sd", SHAPE)
    noise, labels = torch.randn(2, 3, 2, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 1])
    drawn = program.random(noise[0], labels)
    apart = []
    for degree in (0.0, 0.5, 1.0):
        Pipeline.asked.clear()
        varied = program.vary(drawn, degree, noise[1], labels)
        assert {call["strength"] for call in Pipeline.asked} == ({degree} if degree else set())
        assert all(call["image"].shape == (1, 3, SIDE, SIDE) for call in Pipeline.asked)
        apart.append(float((varied.float() - drawn.float()).abs().mean()))
    assert apart[0] == 0 < apart[1] < apart[2]
    program.vary(drawn, 0.01, noise[1], labels)
    assert {call["strength"] for call in Pipeline.asked[-3:]} == {0.25}


def test_grey_pictures_of_another_shape_are_made_of_the_pipelines(folders: Path) -> None:
    (folders / "sd.toml").write_text(ABOUT + "guidance = 2.5\n")
    plugins.allow("diffusers_folders:sd")
    program = PluginGenerator("diffusers_folders:sd", (1, 6, 10))
    noise, labels = torch.randn(2, 2, 2, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1])
    drawn = program.random(noise[0], labels)
    assert drawn.shape == (2, 60)
    assert program.vary(drawn, 0.5, noise[1], labels).shape == (2, 60)
    assert {call["guidance_scale"] for call in Pipeline.asked} == {2.5}
    origin = plugins.origin("generator", "diffusers_folders:sd")
    assert (origin.licence, origin.trained_on, len(origin.weights)) == ("MIT", "nothing", 64)
    with pytest.raises(RequestError, match="knows 2 classes, and the card declares 3"):
        program.check(3)


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("about", "says"),
    [
        ("side = 16\n", "lacks prompts"),
        (ABOUT + "width = 3\n", "unknown key 'width'"),
        (ABOUT.replace("16", "0"), "side = 0. Give a whole number above 0"),
        (ABOUT.replace('["dark", "bright"]', '"dark"'), "prompts = 'dark'. Give a list of texts"),
        (ABOUT + "guidance = -1\n", "guidance = -1. Give a number of at least 0"),
        ("side = [", "cannot be read"),
    ],
)
def test_a_toml_of_another_form_is_refused(about: str, says: str, folders: Path) -> None:
    (folders / "sd.toml").write_text(about)
    with pytest.raises(RequestError, match=says):
        plugins.allow("diffusers_folders:sd")


def test_folders_that_need_code_or_a_pickle_or_are_not_there_are_refused(folders: Path) -> None:
    def refused(says: str, name: str = "sd") -> None:
        with pytest.raises(RequestError, match=says) as caught:
            plugins.allow(f"diffusers_folders:{name}")
        assert "\n" not in str(caught.value)

    refused("absolute path, and the certificate would show it", str(folders / "kl"))
    refused("has no model_index.json, as a pipeline has, and no config.json", "nowhere")
    (folders / "kl" / "config.json").write_text('{"_class_name": "UNet"}')
    refused("is of the class UNet. Name the folder of an AutoencoderKL or an AutoencoderTiny", "kl")
    index = folders / "sd" / "model_index.json"
    for content in ({"_class_name": ["pipeline", "Mine"]}, {"_class_name": "A", "unet": ["my_module", "UNet"]}):
        index.write_text(json.dumps(content))
        refused("needs code for ")
    index.write_text(json.dumps({"_class_name": "A", "unet": ["stable", "UNet"]}))
    plugins.allow("diffusers_folders:sd")
    (folders / "sd" / "net.safetensors").unlink()
    refused(r"cannot be read by diffusers \(OSError: no file named net.safetensors\)")
    (folders / "sd" / "unet.py").write_text("")
    refused("unet.py is code. Gossamer runs no code from a folder of weights")


def test_a_pipeline_is_no_autoencoder_and_no_folder_is_read_because_a_file_names_it() -> None:
    plugins.allow("diffusers_folders:sd")
    with pytest.raises(RequestError, match="lacks the function encode or decode"):
        PluginAutoencoder("diffusers_folders:sd", SHAPE)
    with pytest.raises(RequestError, match="code is not imported because a file names it"):
        plugins.load("autoencoder", "diffusers_folders:kl")


def test_without_diffusers_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "diffusers", None)
    for name in ("kl", "sd"):
        with pytest.raises(RequestError, match="Install it with: pip install diffusers transformers"):
            plugins.allow(f"diffusers_folders:{name}")
