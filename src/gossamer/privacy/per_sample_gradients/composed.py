"""Functions of torch that hold several linear maps: attention and recurrent layers, written in operations that the tape knows.

Each is called with `linear(a, weight, bias)` and with torch's own arguments. It computes what torch's function does, with the
records first. It gives None where an argument asks for more; torch's function then stays in place.
"""

import inspect
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

LinearMap: TypeAlias = Callable[[Tensor, Tensor, Tensor | None], Tensor]
Step: TypeAlias = Callable[..., tuple[Tensor, ...]]
"""The next state, the output first. Called with what input and state give, [n, gates x H] each, and with the state."""


def attention(linear: LinearMap, *args: Any, **named: Any) -> tuple[Tensor, Tensor | None] | None:
    """`F.multi_head_attention_forward`. Without random masks, and with the usual keys and values."""
    bound = inspect.signature(F.multi_head_attention_forward).bind(*args, **named)
    bound.apply_defaults()
    g = SimpleNamespace(**bound.arguments)
    unusual = [g.bias_k, g.bias_v, g.static_k, g.static_v]
    if g.query.dim() != 3 or g.add_zero_attn or unusual != [None] * 4 or (g.training and g.dropout_p):
        return None
    if g.is_causal and g.attn_mask is None:
        return None
    inputs = [t.transpose(0, 1) for t in (g.query, g.key, g.value)]
    if g.query is g.key is g.value and not g.use_separate_proj_weight:
        parts = linear(inputs[0], g.in_proj_weight, g.in_proj_bias).chunk(3, -1)
    else:
        matrices = (g.q_proj_weight, g.k_proj_weight, g.v_proj_weight)
        matrices = matrices if g.use_separate_proj_weight else g.in_proj_weight.chunk(3)
        biases = (None,) * 3 if g.in_proj_bias is None else g.in_proj_bias.chunk(3)
        parts = tuple(map(linear, inputs, matrices, biases))
    q, k, v = (part.unflatten(-1, (g.num_heads, -1)).transpose(1, 2) for part in parts)
    mask = None
    if g.attn_mask is not None:
        mask = _added(g.attn_mask, q)
        mask = mask.unflatten(0, (len(q), -1)) if mask.dim() == 3 else mask
    if g.key_padding_mask is not None:
        padding = _added(g.key_padding_mask, q)[:, None, None]
        mask = padding if mask is None else mask + padding
    weights = None
    if g.need_weights:
        products = q @ k.mT / q.shape[-1] ** 0.5
        weights = (products if mask is None else products + mask).softmax(-1)
        heads = weights @ v
        weights = weights.mean(1) if g.average_attn_weights else weights
    else:
        heads = F.scaled_dot_product_attention(q, k, v, mask)
    return linear(heads.transpose(1, 2).flatten(2), g.out_proj_weight, g.out_proj_bias).transpose(0, 1), weights


def _added(mask: Tensor, like: Tensor) -> Tensor:
    """A mask as numbers to add. True: not attended to."""
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=like.dtype).masked_fill(mask, -torch.inf)


def recurrent(step: Step, linear: LinearMap, *args: Any) -> tuple[Tensor, ...] | None:
    """A recurrent layer of torch, of any depth, in one direction or both. Without random masks and packed sequences."""
    if len(args) != 9:
        return None
    x, before, weights, biased, depth, dropout, training, both, records_first = args
    each, ways = 4 if biased else 2, 2 if both else 1
    if len(weights) != each * ways * depth or (training and dropout):
        return None
    x = x if records_first else x.transpose(0, 1)
    before = before if isinstance(before, Sequence) else (before,)
    last: list[tuple[Tensor, ...]] = []
    for _ in range(depth):
        outputs = []
        for way in range(ways):
            at = len(last)
            of_input, of_state, *biases = weights[each * at : each * (at + 1)]
            bias, state_bias = biases or (None, None)
            given, state, found = linear(x, of_input, bias).unbind(1), tuple(t[at] for t in before), []
            for now in given[:: -1 if way else 1]:
                state = step(now, linear(state[0], of_state, state_bias), *state)
                found.append(state[0])
            outputs.append(torch.stack(found[:: -1 if way else 1], 1))
            last.append(state)
        x = torch.cat(outputs, -1)
    return x if records_first else x.transpose(0, 1), *map(torch.stack, zip(*last, strict=True))


def one_step(step: Step, linear: LinearMap, *args: Any) -> Tensor | tuple[Tensor, ...] | None:
    """A recurrent cell of torch."""
    x, before, of_input, of_state, bias, state_bias = args
    state = before if isinstance(before, Sequence) else (before,)
    found = step(linear(x, of_input, bias), linear(state[0], of_state, state_bias), *state)
    return found if len(found) > 1 else found[0]


def _gru(given: Tensor, own: Tensor, state: Tensor) -> tuple[Tensor]:
    reset, update, new = given.chunk(3, -1)
    own_reset, own_update, own_new = own.chunk(3, -1)
    candidate = torch.addcmul(new, (reset + own_reset).sigmoid(), own_new).tanh()
    return (torch.lerp(candidate, state, (update + own_update).sigmoid()),)


def _lstm(given: Tensor, own: Tensor, state: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    del state
    into, kept, new, out = (given + own).chunk(4, -1)
    cell = torch.addcmul(kept.sigmoid() * cell, into.sigmoid(), new.tanh())
    return out.sigmoid() * cell.tanh(), cell


STEPS: dict[Callable[..., Any], Step] = {
    torch.gru: _gru,
    torch.lstm: _lstm,
    torch.rnn_tanh: lambda given, own, _: ((given + own).tanh(),),
    torch.rnn_relu: lambda given, own, _: ((given + own).relu(),),
}
CELLS: dict[Callable[..., Any], Step] = {
    torch.gru_cell: _gru,
    torch.lstm_cell: _lstm,
    torch.rnn_tanh_cell: STEPS[torch.rnn_tanh],
    torch.rnn_relu_cell: STEPS[torch.rnn_relu],
}
