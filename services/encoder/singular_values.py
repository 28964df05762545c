"""Singular value fine-tuning: a candidate scales the singular values of chosen matrices (paper, section 3.1).

For offsets z, one per singular value, identity at 0 (authors' code):

    W' = U diag(S (1 + z)) V^T * sum(S) / sum(S (1 + z))

The last factor keeps the sum of the singular values. With W V = U S this is (W + W V diag(z) V^T) times the factor, so
that one orthogonal basis, on the matrix's smaller side, is all that has to be known of the decomposition, and z = 0
gives the very bits of W.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from services.core.architecture import EMBEDDING, OUTPUT
from services.core.campaign import Matrix
from services.core.errors import SpecError
from services.encoder.decoder import Change, Decoder

_ROWS = 16_384  # of a large matrix that are multiplied in float64 at a time


@dataclass(frozen=True)
class Basis:
    """The singular vectors on the smaller side of a matrix, one per column, and its singular values, largest first.

    Attributes:
        vectors: float32, (r, r): right ones of a matrix with at least as many rows as columns, else left ones.
        values: float64, (r,).
    """

    vectors: Tensor
    values: Tensor


def decompose(weight: Tensor) -> Basis:
    """Return the basis of a matrix by the eigenvectors of its smaller Gram matrix in float64."""
    tall = weight if weight.shape[0] >= weight.shape[1] else weight.T
    gram = sum((part.double().T @ part.double() for part in torch.split(tall, _ROWS)), torch.zeros(()))
    squares, vectors = torch.linalg.eigh(gram)
    return Basis(vectors.flip(1).float().contiguous(), squares.flip(0).clamp(min=0).sqrt().contiguous())


def kept_sum(basis: Basis, offsets: Tensor) -> float:
    """Return the factor that keeps the sum of the singular values.

    Raises:
        SpecError: the offsets turn the sum to zero or below.
    """
    total = float(basis.values.sum())
    changed = float((basis.values * (1 + offsets.double())).sum())
    if not changed > 0:
        raise SpecError("theta", f"singular values that sum to {changed:g}", "offsets that leave a positive sum")
    return total / changed


class SingularValues:
    """The matrices of one campaign's encoder that candidates change. Safe to use from many threads."""

    def __init__(self, decoder: Decoder, matrices: Sequence[Matrix], bases: Mapping[str, Basis]) -> None:
        """Take what ``bases_of`` returned for the same matrices."""
        self._matrices = tuple(matrices)
        self._bases = bases
        self._originals = {name: decoder.matrix(name) for name in bases}
        # W V or U^T W, so that a change costs one product.
        self._products = {
            name: _product(weight, bases[name])
            for name, weight in self._originals.items()
            if weight is not None and name != EMBEDDING
        }
        self._embedding = _embedding_of(self._matrices, tied=decoder.tied)
        self.first = _first_changed(self._matrices, decoder.layers, self._embedding is not None)
        self.size = sum(matrix.size for matrix in self._matrices)

    def change(self, offsets: NDArray[np.float32]) -> Change:
        """Return a candidate's weights.

        Args:
            offsets: z, float32, (size,), matrix by matrix.

        Raises:
            SpecError: another size, or offsets that leave nothing of a matrix.
        """
        if offsets.shape != (self.size,):
            raise SpecError("theta", f"{offsets.size} singular-value offsets", f"{self.size}")
        ends = np.cumsum([matrix.size for matrix in self._matrices])
        parts = {
            matrix.name: torch.from_numpy(np.array(offsets[end - matrix.size : end]))
            for matrix, end in zip(self._matrices, ends, strict=True)
        }
        weights = {name: self._changed(name, parts[name]) for name in self._products}
        if self._embedding is None:
            return Change(weights)
        return Change(weights, self._embedding_change(parts[self._embedding]))

    def _changed(self, name: str, offsets: Tensor) -> Tensor:
        original, basis, product = self._originals[name], self._bases[name], self._products[name]
        assert original is not None
        scales, factor = offsets.to(product), kept_sum(basis, offsets)
        if original.shape[0] >= original.shape[1]:
            added = (product * scales) @ basis.vectors.T.to(product)
        else:
            added = basis.vectors.to(product) @ (scales[:, None] * product)
        return ((original.float() + added) * factor).to(original.dtype)

    def _embedding_change(self, offsets: Tensor) -> Callable[[Tensor], Tensor]:
        basis = self._bases[EMBEDDING]
        factor = kept_sum(basis, offsets)

        def change(rows: Tensor) -> Tensor:
            vectors = basis.vectors.to(rows.device)
            wide = rows.float()
            return ((wide + ((wide @ vectors) * offsets.to(wide)) @ vectors.T) * factor).to(rows.dtype)

        return change


def bases_of(decoder: Decoder, matrices: Sequence[Matrix], folder: Path) -> dict[str, Basis]:
    """Return the bases of the matrices that matter, computed once and kept in ``folder``.

    The output layer stands beside the head that is trained. Its offsets act only where it shares its weights with the
    embedding; it then has the embedding's basis.

    Raises:
        SpecError: the model has no such matrix, or of another size.
    """
    bases = {}
    for matrix in matrices:
        name = EMBEDDING if matrix.name == OUTPUT and decoder.tied else matrix.name
        if name == OUTPUT:
            continue
        weight = decoder.matrix(name)
        if weight is None or weight.dim() != 2 or min(weight.shape) != matrix.size:
            got = "no such matrix" if weight is None else f"{min(weight.shape)} singular values"
            raise SpecError("encoder.singular_values", matrix.name, f"a matrix of {matrix.size}; the model has {got}")
        if name not in bases:
            bases[name] = _kept(folder / f"{name}.safetensors", weight)
    return bases


def _kept(path: Path, weight: Tensor) -> Basis:
    basis = _read(path, min(weight.shape))
    if basis is None:
        basis = decompose(weight.detach().cpu().float())
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=".partial")
        os.close(handle)
        save_file({"vectors": basis.vectors, "values": basis.values}, name)
        os.replace(name, path)
    return Basis(basis.vectors.to(weight.device), basis.values)


def _read(path: Path, size: int) -> Basis | None:
    try:
        tensors = load_file(path)
        basis = Basis(tensors["vectors"], tensors["values"])
    except (OSError, SafetensorError, KeyError):
        return None
    return basis if basis.vectors.shape == (size, size) and basis.values.shape == (size,) else None


def _product(weight: Tensor, basis: Basis) -> Tensor:
    wide, vectors = weight.float(), basis.vectors.to(weight.device)
    return wide @ vectors if weight.shape[0] >= weight.shape[1] else vectors.T @ wide


def _embedding_of(matrices: Sequence[Matrix], tied: bool) -> str | None:
    """Return whose offsets act on the embedding: of tied matrices, the one that is written last (authors' code)."""
    acting = [matrix.name for matrix in matrices if matrix.name == EMBEDDING or (matrix.name == OUTPUT and tied)]
    return acting[-1] if acting else None


def _first_changed(matrices: Sequence[Matrix], layers: int, embedding: bool) -> int:
    """Return the first layer whose input or weights a candidate changes; ``layers`` when none does."""
    if embedding:
        return 0
    return min((int(matrix.name.split(".")[1]) for matrix in matrices if matrix.name != OUTPUT), default=layers)
