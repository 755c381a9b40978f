"""Symmetric matrices as vectors of the same length."""

import torch

from gossamer.methods.common.bounded_sum import smat, svec

Z = torch.tensor([[3.0, -1.0, 2.0], [0.0, 0.5, 0.0]], dtype=torch.float64)


def test_a_product_of_a_vector_with_itself_is_as_long_as_its_squared_length() -> None:
    for z in Z:
        torch.testing.assert_close(svec(z.outer(z)).norm(), z.square().sum(), rtol=1e-15, atol=0)


def test_the_numbers_by_hand() -> None:
    root = 2**0.5
    expected = torch.tensor([9, -3 * root, 6 * root, 1, -2 * root, 4], dtype=torch.float64)
    torch.testing.assert_close(svec(Z[0].outer(Z[0])), expected)


def test_vectors_become_their_matrices() -> None:
    matrices = torch.stack([z.outer(z) for z in Z])
    vectors = torch.stack([svec(matrix) for matrix in matrices])
    torch.testing.assert_close(smat(vectors, 3), matrices, rtol=1e-15, atol=0)
