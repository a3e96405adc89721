"""Seconds that one GPU computes."""

from __future__ import annotations

from .specs import Cluster, Recipe, Transformer


def forward_seconds(transformer: Transformer, cluster: Cluster) -> float:
    """Forward pass of one layer over one micro-batch."""
    return transformer.forward_flops / cluster.flops


def backward_seconds(transformer: Transformer, cluster: Cluster) -> float:
    """Backward pass of one layer: gradients of inputs and of parameters, twice the forward."""
    return 2.0 * transformer.forward_flops / cluster.flops


def optimizer_seconds(elements: float, recipe: Recipe, cluster: Cluster) -> float:
    """Optimizer step over ``elements`` parameters, bound by memory.

    Optimizer states are read and written, gradients read, parameters written.
    """
    nbytes = 2.0 * recipe.bytes_of("optimizer") + recipe.bytes_of("gradients") + recipe.bytes_of("parameters")
    return nbytes * elements / cluster.memory_bandwidth
