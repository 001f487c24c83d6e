"""Binade's own translations of ATen ops to ONNX, for PyTorch's exporter.

PyTorch's translations of these ops are wrong for training (batch norm in training mode
becomes inference, label smoothing is dropped) or obscure the op (attention becomes shape
arithmetic, a missing bias becomes zeros).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir
import torch
from onnxscript import opset18 as op

from binade.errors import RejectedError

aten = torch.ops.aten


def translations() -> dict[object, Callable]:
    """Returns the translation table for one export; causal masks are shared within it."""
    masks: dict[tuple, ir.Value] = {}

    def attention(
        query,
        key,
        value,
        attn_mask=None,
        dropout_p=0.0,
        is_causal=False,
        scale=None,
        enable_gqa=False,
    ):
        """Computes softmax(scale query key^T + mask) value in elementary ops."""
        own_key = key  # The repeated key has no shape yet.
        if enable_gqa:
            key, value = (_repeat_heads(x, query.shape[-3]) for x in (key, value))
        rank = len(query.shape)
        swapped = [*range(rank - 2), rank - 1, rank - 2]
        scores = op.MatMul(query, op.Transpose(key, perm=swapped))
        if scale is None:
            scale = query.shape[-1] ** -0.5
        scores = op.Mul(scores, _scalar(scale, query))
        if is_causal:
            place = (query.shape[-2], own_key.shape[-2], query.dtype)
            if place not in masks:
                masks[place] = _causal_mask(
                    _positions(query, 1), _positions(own_key, 0), query.dtype
                )
            attn_mask = masks[place]
        elif attn_mask is not None and attn_mask.dtype == ir.DataType.BOOL:
            attn_mask = op.Where(
                attn_mask, _scalar(0.0, query), _scalar(-np.inf, query)
            )
        if attn_mask is not None:
            scores = op.Add(scores, attn_mask)
        probabilities = op.Softmax(scores, axis=-1)
        if attn_mask is not None and not is_causal:
            # If every key is masked, softmax is NaN; PyTorch's probabilities are 0 then.
            probabilities = op.Where(
                op.IsNaN(probabilities), _scalar(0.0, query), probabilities
            )
        if dropout_p:
            probabilities, _ = op.Dropout(
                probabilities,
                _scalar(dropout_p, query),
                op.Constant(value=ir.tensor(True)),
            )
        return op.MatMul(probabilities, value)

    return {
        aten.scaled_dot_product_attention.default: attention,
        aten._native_batch_norm_legit_functional.default: _batch_norm,
        aten._native_batch_norm_legit.no_stats: _batch_norm_of_batch,
        aten.cross_entropy_loss.default: _cross_entropy,
        aten.mse_loss.default: _mse,
        aten.split.Tensor: _split,
        aten.split_with_sizes.default: _split,
        aten.unbind.int: _unbind,
        aten.conv1d.default: _convolution,
        aten.conv2d.default: _convolution,
        aten.conv3d.default: _convolution,
    }


def _batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps):
    """Batch norm in training mode; also returns the updated running statistics."""
    if not training:
        raise RejectedError(
            "batch norm that updates its running statistics must be in training mode"
        )
    channels = x.shape[1]
    weight = _filled(1.0, channels, x) if weight is None else weight
    bias = _filled(0.0, channels, x) if bias is None else bias
    y, mean, variance = op.BatchNormalization(
        x,
        weight,
        bias,
        running_mean,
        running_var,
        epsilon=eps,
        momentum=1.0 - momentum,
        training_mode=1,
    )
    # The second and third result of the ATen op are saved for its gradient; a
    # forward graph does not read them.
    return y, op.Identity(mean), op.Identity(variance), mean, variance


def _batch_norm_of_batch(x, weight, bias, training, momentum, eps):
    """Batch norm without running statistics: always uses the statistics of the batch."""
    zeros, ones = (_filled(value, x.shape[1], x) for value in (0.0, 1.0))
    y, mean, variance, _, _ = _batch_norm(
        x, weight, bias, zeros, ones, True, momentum, eps
    )
    return y, mean, variance


def _cross_entropy(
    x, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0
):
    """Cross-entropy over axis 1 of class indices, or of class probabilities."""
    if len(x.shape) < 2:
        raise RejectedError("cross_entropy needs predictions with a batch axis")
    how = ("none", "mean", "sum")[reduction]
    if not target.dtype.is_integer():
        return _cross_entropy_of_probabilities(x, target, weight, how, label_smoothing)
    loss, _ = op.SoftmaxCrossEntropyLoss(
        x, target, weight, reduction=how, ignore_index=ignore_index
    )
    if not label_smoothing:
        return loss
    if weight is not None:
        raise RejectedError("cross_entropy takes either weight or label_smoothing here")
    spread = op.Neg(op.ReduceMean(op.LogSoftmax(x, axis=1), _integers(1), keepdims=0))
    ignored = op.Equal(
        target,
        op.Constant(value=ir.tensor(np.array(ignore_index, target.dtype.numpy()))),
    )
    kept = op.Cast(op.Not(ignored), to=x.dtype)
    spread = op.Mul(spread, kept)
    if how != "none":
        spread = op.ReduceSum(spread, keepdims=0)
    if how == "mean":
        spread = op.Div(spread, op.ReduceSum(kept, keepdims=0))
    return op.Add(
        op.Mul(loss, _scalar(1.0 - label_smoothing, x)),
        op.Mul(spread, _scalar(label_smoothing, x)),
    )


def _cross_entropy_of_probabilities(x, target, weight, how, label_smoothing):
    """Cross-entropy with class probabilities: -sum over classes of target log softmax(x)."""
    if weight is not None or label_smoothing:
        raise RejectedError(
            "cross_entropy with class probabilities takes neither "
            "weight nor label_smoothing here"
        )
    loss = op.Neg(
        op.ReduceSum(op.Mul(op.LogSoftmax(x, axis=1), target), _integers(1), keepdims=0)
    )
    if how == "none":
        return loss
    return (op.ReduceMean if how == "mean" else op.ReduceSum)(loss, keepdims=0)


def _mse(x, target, reduction=1):
    """Squared error: per element, mean (1) or sum (2)."""
    difference = op.Sub(x, target)
    square = op.Mul(difference, difference)
    if reduction == 0:
        return square
    return (op.ReduceMean if reduction == 1 else op.ReduceSum)(square, keepdims=0)


def _split(x, sizes, dim=0):
    """Splits an axis into parts of `sizes` elements (the last may be smaller), or into parts
    of the given sizes."""
    length = x.shape[dim]
    if isinstance(sizes, int):
        sizes = [min(sizes, length - start) for start in range(0, length, sizes)]
    if len(sizes) > 1 and len(set(sizes)) == 1:
        return list(op.Split(x, axis=dim, num_outputs=len(sizes)))
    ends = np.cumsum(sizes)
    return [
        op.Slice(x, _integers(end - size), _integers(end), _integers(dim))
        for size, end in zip(sizes, ends)
    ]


def _unbind(x, dim=0):
    """Returns the slices along an axis, without that axis."""
    return [op.Squeeze(part, _integers(dim)) for part in _split(x, 1, dim)]


def _convolution(
    x, weight, bias=None, stride=(1,), padding=(0,), dilation=(1,), groups=1
):
    """Convolution; a missing bias stays missing."""
    axes = len(weight.shape) - 2

    def per_axis(values: Sequence[int]) -> list[int]:
        return list(values) * axes if len(values) == 1 else list(values)

    return op.Conv(
        x,
        weight,
        bias,
        strides=per_axis(stride),
        pads=per_axis(padding) * 2,
        dilations=per_axis(dilation),
        group=groups,
        kernel_shape=list(weight.shape[2:]),
    )


def _positions(x, axis: int) -> ir.Value:
    """0, 1, ... along the axis before the last, as [1, n] (axis 0) or [n, 1]."""
    size = x.shape[-2]
    if isinstance(size, int):
        places = np.expand_dims(np.arange(size, dtype=np.int64), axis)
        return op.Constant(value=ir.tensor(places))
    size = op.Squeeze(op.Shape(x, start=-2, end=-1))
    zero, one = (op.Constant(value=ir.tensor(np.int64(n))) for n in (0, 1))
    return op.Unsqueeze(op.Range(zero, size, one), _integers(axis))


def _causal_mask(row: ir.Value, column: ir.Value, dtype: ir.DataType) -> ir.Value:
    """Returns a mask [queries, keys]: 0 if the key is not after the query, else -infinity."""
    zero, infinity = (
        op.Constant(value=ir.tensor(np.array(value, dtype.numpy())))
        for value in (0.0, -np.inf)
    )
    return op.Where(op.LessOrEqual(column, row), zero, infinity)


def _repeat_heads(x, heads: int):
    """Repeats each head of [..., H, N, D] to get `heads` heads."""
    *outer, own_heads, _, width = x.shape
    # Ones, zeros and -1 represent sizes that may be symbolic.
    wide = [1] * len(outer) + [1, heads // own_heads, 1, 1]
    wide_x = op.Expand(op.Unsqueeze(x, _integers(len(outer) + 1)), _integers(*wide))
    return op.Reshape(wide_x, _integers(*[0] * len(outer), heads, -1, width))


def _scalar(value: float, like) -> ir.Value:
    return op.Constant(value=ir.tensor(np.array(value, like.dtype.numpy())))


def _filled(value: float, size: int, like) -> ir.Value:
    return op.Constant(value=ir.tensor(np.full(size, value, like.dtype.numpy())))


def _integers(*values: int) -> ir.Value:
    return op.Constant(value=ir.tensor(np.array(values, np.int64)))
