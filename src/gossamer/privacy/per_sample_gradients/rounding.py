"""What rounding can do to a clipped sum, and how it is kept out of the guarantee.

A record whose norm is computed too small would add more than max_norm. So every squared norm that clipping sees is an *upper
bound*: the computed one, plus all that rounding can have taken from it. With e for machine epsilon, a sum of products of two
vectors x and y is off by at most

    k e / 2 |x| |y|,    k the number of roundings that a product goes through,

in any order of summation, with fused multiplication or without (Higham 2002, "Accuracy and Stability of Numerical Algorithms",
section 3.1). Let a record meet a weight at T positions, with inputs u_t and output gradients b_t. Its gradient G is the
sum of the b_t outer u_t. If nothing cancelled, |G|^2 would be S = (sum over t of |u_t| |b_t|)^2.

- A Gram sum is off |G|^2 by at most k e / 2 S. Here k counts the roundings of both Gram matrices and of the sum over
  positions. Long products are cut into pieces of `PRODUCTS` numbers, so that k grows by one for each further piece. Where a
  record has few positions (`FEW`), the matrices are in double precision.
- What is really added comes from another call, in another order: T positions, one addition per use of the weight, the product
  with the factor. It is off G by less than (T + 1) e sqrt(S) in norm, and an instantiated gradient by less than that again.
- Squares of the smallest numbers vanish: `UNDERFLOW`.

`raised` adds these up. Where S is about T |G|^2, the norm grows by a tenth of a per cent. A record whose terms cancel almost
completely is clipped harder than it needs, never less. Other gradients are formed and then added as they are: kept, of
rank one, a whole unit, the slow form. They need none of this: their norms have a relative error only (`square_norms`).

**What the bounds allow for.** Relative errors stay below 600 machine epsilons of a norm. They come from sums of squares
in pieces of `SQUARES`, and from the factor. So bounds are divided by 1 + `SLACK` machine epsilons: 1.001 in float32.

**Narrow products.** All of this holds for any u_t and b_t of single precision, whatever they came from. So a forward and
backward pass in TF32 or bfloat16 (`precision`) needs no other margin. The pairs that it leaves *define* the gradient, and norm
and sum take the same pairs. `full_precision` keeps both from taking other numbers, or products in ten bits.

**What is assumed.** Where a record joins a sum, the terms of *others* are rounded in another way. No bound per record can cover
that, and its worst case is too large to include. In measured sums of 128 to 2,048 records it changed the length of the
whole movement by at most 3e-5 of max_norm. That is well inside the slack. `FLOOR` keeps one record's part in it small:
its terms, before they cancel, are at most 512 max_norm long. Matrix products and convolutions are assumed to add up
products. GPU libraries that transform convolutions (Winograd, Fourier) have such an error with another constant.
"""

import torch
from torch import Tensor

SLACK = 8192.0  # of a bound, in machine epsilons
FLOOR = 32.0  # a squared norm is never taken to be below this many machine epsilons of S
PRODUCTS = 512  # numbers that one call of a Gram matrix sums
FEW = 4  # positions up to which a Gram matrix costs nothing, and is taken in double precision
SQUARES = 1024  # squares that one norm sums
BELOW = 1 - 1e-6  # of a bound, for vectors whose norm is taken in double precision and which are then added as they are
UNDERFLOW = 2.0**40  # more numbers than a pair holds; the square of each may have lost as much as the smallest number


def charged(bound: float, dtype: torch.dtype) -> float:
    """The bound that records are clipped to, so that what they add stays within `bound` after rounding."""
    return bound / (1 + SLACK * torch.finfo(dtype).eps)


def shortened(vectors: Tensor, max_norm: float) -> Tensor:
    """Each vector scaled to an L2 norm of at most `max_norm`; one that is not finite becomes zero. [n, D], at least float32.

    Norm and product in double precision: all that rounding can add is the last bit of each number.
    """
    wide: Tensor = vectors.detach().double()
    wide = torch.where(wide.isfinite().all(1, keepdim=True), wide, 0.0)
    norm = torch.linalg.vector_norm(wide, dim=1, keepdim=True)
    factor = torch.where(norm > BELOW * max_norm, BELOW * max_norm / norm, 1.0)
    wide *= factor
    return wide.to(torch.promote_types(vectors.dtype, torch.float32))


def square_norms(rows: Tensor) -> Tensor:
    """[n] float64, squared L2 norms of rows [n, D] that are added as they are; high by what underflow may have lost."""
    n, size = rows.shape
    whole = size - size % SQUARES
    total = torch.zeros(n, dtype=torch.float64, device=rows.device)
    if whole:
        pieces = rows[:, :whole].unflatten(1, (-1, SQUARES))
        total += torch.linalg.vector_norm(pieces, dim=2).double().square().sum(1)
    if whole < size:
        total += torch.linalg.vector_norm(rows[:, whole:], dim=1).double().square()
    return total + size * torch.finfo(rows.dtype).tiny


def gram(features: Tensor) -> Tensor:
    """[m, T, T], inner products of the columns of features [m, F, T], off by at most `roundings(F, T)` roundings."""
    if features.shape[2] <= FEW:
        features = features.double()
    first, *others = features.chunk(-(-features.shape[1] // PRODUCTS), dim=1)
    total = first.transpose(1, 2) @ first
    for piece in others:
        total += piece.transpose(1, 2) @ piece
    return total


def roundings(features: int, positions: int) -> int:
    """Roundings on the longest way through `gram`; none that count in double precision."""
    if positions <= FEW:
        return 0
    return min(features, PRODUCTS) + -(-features // PRODUCTS)


def paired(u_gram: Tensor, b_gram: Tensor, dtype: torch.dtype, steps: int) -> Tensor:
    """[m] float64, upper bounds of squared norms from the Gram matrices of u and b, [m, T, T].

    Args:
        u_gram: of u.
        b_gram: of b.
        dtype: of u and b.
        steps: roundings in one entry of either matrix, together.
    """
    squares = (u_gram * b_gram).sum(1).double().sum(1)
    u, b = (products.diagonal(dim1=1, dim2=2).sqrt() for products in (u_gram, b_gram))
    return raised(squares, u, b, dtype, steps + u_gram.shape[1] + 1)


def instantiated(u: Tensor, b: Tensor) -> Tensor:
    """[m] float64, upper bounds of squared norms from u [m, columns, T] and b [m, rows, T], by forming the gradients."""
    squares = square_norms((b @ u.transpose(1, 2)).flatten(1))
    lengths = torch.linalg.vector_norm(u, dim=1), torch.linalg.vector_norm(b, dim=1)
    return raised(squares, *lengths, u.dtype, 0)


def raised(squares: Tensor, u: Tensor, b: Tensor, dtype: torch.dtype, steps: int) -> Tensor:
    """[m] float64: squares, raised to bound what a weight-gradient call adds.

    `squares` has computed squared norms, [m]; a norm that is not finite, of either sign, stays so. `u` and `b` are
    |u_t| and |b_t| of the T positions that the norms come from, [m, T]. The call adds up in `dtype`. `steps` counts the
    roundings on the longest way to `squares`.
    """
    kind = torch.finfo(dtype)
    # Products that overflow below zero are no norm of zero.
    squares = torch.where(squares.isfinite(), squares, torch.nan)
    terms = (u * b).sum(1).double()
    lost = UNDERFLOW * kind.tiny * sum(torch.linalg.vector_norm(t, dim=1).double().square() for t in (u, b))
    norm: Tensor = (squares.double().clamp(min=0) + (steps / 2 + FLOOR) * kind.eps * terms.square() + lost).sqrt()
    return (norm + 2 * (u.shape[1] + 1) * kind.eps * terms).square()
