"""Collectives: what one rank sends, and how long a ring takes.

Ring algorithms, S the full tensor: an all-gather or reduce-scatter sends S(n-1)/n in n-1 steps, an
all-reduce is both; a broadcast or a reduce passes all S from rank to rank, so that one rank sends S(n-1)/n on
average (NVIDIA nccl-tests, PERFORMANCE.md). Each step costs alpha, and its bytes over the bandwidth.
"""

from __future__ import annotations

from .specs import Cluster

ROUNDS = {"all_gather": 1.0, "reduce_scatter": 1.0, "all_reduce": 2.0, "broadcast": 1.0, "reduce": 1.0}
"""Times a ring goes round; also how often the paper counts each element."""


def wire_bytes(op: str, nbytes: float, n: int) -> float:
    """Bytes that one rank sends for a collective on ``nbytes`` over ``n`` ranks.

    >>> wire_bytes("all_reduce", 64.0, 4)
    96.0
    """
    return ROUNDS[op] * nbytes * (n - 1.0) / n


def seconds(op: str, nbytes: float, cluster: Cluster) -> float:
    """Time of one collective alone on its link, alpha-beta model."""
    if op in ("broadcast", "reduce"):
        return (cluster.n - 1.0) * cluster.latency + nbytes / cluster.bandwidth
    return ROUNDS[op] * (cluster.n - 1.0) * (cluster.latency + nbytes / (cluster.n * cluster.bandwidth))
