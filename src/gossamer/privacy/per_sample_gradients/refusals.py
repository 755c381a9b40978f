"""Layers and functions for which a record has no gradient of its own, refused by name with the remedy.

Messages name layers and functions, never a number that depends on records.
"""

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from gossamer.errors import RequestError


def check_module(module: nn.Module) -> None:
    """Refuse layers for which a record has no gradient of its own.

    Raises:
        RequestError: naming the layer and the remedy.
    """
    for name, layer in module.named_modules():
        where = f"layer '{name}' ({type(layer).__name__})" if name else type(layer).__name__
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and (layer.training or layer.running_mean is None):
            raise RequestError(
                f"{where} normalises over the batch, so no record has a gradient of its own and none can be clipped. Use "
                "GroupNorm or no normalisation in a network that is trained on records."
            )
        if isinstance(layer, nn.modules.instancenorm._InstanceNorm) and layer.training and layer.track_running_stats:
            raise RequestError(
                f"{where} keeps averages of records in its buffers. Set track_running_stats=False, or use GroupNorm."
            )
        if isinstance(layer, nn.modules.dropout._DropoutNd) and layer.training and layer.p > 0:
            raise RequestError(
                f"{where} takes its coins from torch's common stream in the order of the records, so removing one record "
                "changes the coins of those behind it. Draw the mask from the secret coins of the run, as part of the "
                "batch, or call eval() on this layer."
            )
        if layer.training and type(layer).__name__ in ("SpectralNorm", "_SpectralNorm"):
            raise RequestError(
                f"{where} takes a step of its power iteration on every call, so the network changes with the number of "
                "pieces that the drawn records fill. Call eval() on it before gradients are taken."
            )


def _refuse_batch_norm(
    input: Tensor,  # noqa: A002  # torch's name
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    *rest: Any,
    **kwargs: Any,
) -> None:
    del input, running_mean, running_var, weight, bias, rest, kwargs
    if training:
        raise RequestError(
            "batch_norm mixes the records of a batch: no record has a gradient of its own, so none can be clipped. "
            "Use GroupNorm or no normalisation in a network that is trained on records."
        )


def _refuse_dropout(input: Tensor, p: float = 0.5, training: bool = True, *rest: Any, **kwargs: Any) -> None:  # noqa: A002  # torch's name
    del input, rest, kwargs
    if training and p > 0:
        raise RequestError(
            "dropout takes its coins from torch's common stream in the order of the records, so removing one record "
            "changes the coins of those behind it. Draw the mask from the secret coins of the run, as part of the batch, "
            "or call eval() on the dropout layers."
        )


REFUSED_FUNCTIONS: dict[Callable[..., Any], Callable[..., None]] = {
    F.batch_norm: _refuse_batch_norm,
    F.dropout: _refuse_dropout,
    F.dropout1d: _refuse_dropout,
    F.dropout2d: _refuse_dropout,
    F.alpha_dropout: _refuse_dropout,
    F.feature_alpha_dropout: _refuse_dropout,
}
