"""All parameters of a module as one vector: one noise call, one fused optimiser kernel."""

from itertools import pairwise

import torch
from torch import Tensor, nn

from gossamer.errors import RequestError


def flatten(module: nn.Module) -> Tensor:
    """Move all parameters of a module into one vector, of which each parameter becomes a view.

    The vector [D] is a leaf with `requires_grad`, in the order of `module.parameters()`. What changes it changes the module,
    and `load_state_dict` on the module changes the vector. A deep copy of the module has parameters of its own. Moving or
    casting the module (`to`, `double`) unties it, so do that first.

    Raises:
        RequestError: no parameters, or several dtypes or devices.
    """
    parameters = list(module.parameters())
    if len({(parameter.dtype, parameter.device) for parameter in parameters}) != 1:
        raise RequestError(
            f"flatten needs parameters of one dtype on one device, and {type(module).__name__} has none or a mixture: "
            "cast and move the module first"
        )
    flat = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
    ends = torch.tensor([0] + [parameter.numel() for parameter in parameters]).cumsum(0).tolist()
    for parameter, (start, end) in zip(parameters, pairwise(ends), strict=True):
        parameter.data = flat[start:end].view(parameter.shape)
    return flat.requires_grad_()


def gradient(loss: Tensor, module: nn.Module) -> Tensor:
    """The gradient of a loss with respect to a flattened module, in the vector's order. [D]

    Leaves no gradient on any parameter, neither of this module nor of one that the loss passed through.
    """
    parts = torch.autograd.grad(loss, list(module.parameters()))
    return torch.cat([part.reshape(-1) for part in parts])
