"""Layers and functions for which a record has no gradient of its own: refused by name, with the remedy."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import nn
from torch.nn import functional as F

from gossamer.errors import RequestError

_BATCH_NORM = (
    "normalises over the batch, so no record has a gradient of its own that could be clipped. Use GroupNorm or no "
    "normalisation in a network that is trained on records."
)
_DROPOUT = (
    "takes its mask from torch's common random stream, so removing one record changes the masks of those behind it. Draw "
    "the mask by rng.secret_generator(), as part of the batch, or call eval() on the layer."
)
_REFUSED_FUNCTIONS: dict[Callable[..., Any], str] = {
    F.batch_norm: _BATCH_NORM,
    **dict.fromkeys((F.dropout, F.dropout1d, F.dropout2d, F.alpha_dropout, F.feature_alpha_dropout), _DROPOUT),
}


def check_module(module: nn.Module) -> None:
    """Refuse layers for which a record has no gradient of its own.

    Raises:
        RequestError: naming the layer and the remedy.
    """
    for name, layer in module.named_modules():
        if problem := _problem_of(layer):
            where = f"layer '{name}' ({type(layer).__name__})" if name else type(layer).__name__
            raise RequestError(f"{where} {problem}")


def _problem_of(layer: nn.Module) -> str:
    """What is wrong with a layer, and the remedy; empty: nothing."""
    if isinstance(layer, nn.modules.batchnorm._BatchNorm) and (layer.training or layer.running_mean is None):
        return _BATCH_NORM
    if isinstance(layer, nn.modules.instancenorm._InstanceNorm) and layer.training and layer.track_running_stats:
        return "keeps averages of records in its buffers. Set track_running_stats=False, or use GroupNorm."
    if isinstance(layer, nn.modules.dropout._DropoutNd) and layer.training and layer.p > 0:
        return _DROPOUT
    if layer.training and type(layer).__name__ in ("SpectralNorm", "_SpectralNorm"):
        return (
            "takes a step of its power iteration on every call, so the network changes with the number of physical batches. "
            "Call eval() on it before gradients are taken."
        )
    return ""


def check_function(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Refuse the call of a function for the same reason.

    Raises:
        RequestError: naming the function and the remedy.
    """
    if function not in _REFUSED_FUNCTIONS:
        return
    call = inspect.signature(function).bind(*args, **kwargs)
    call.apply_defaults()
    if call.arguments["training"] and call.arguments.get("p", 1) > 0:
        raise RequestError(f"{function.__name__} {_REFUSED_FUNCTIONS[function]}")
