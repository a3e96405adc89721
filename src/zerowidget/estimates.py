"""DeepSpeed's own memory estimators, to the byte, and what they leave out.

``estimate_zero2_model_states_mem_needs`` and ``estimate_zero3_model_states_mem_needs`` of deepspeed 0.19.8
(runtime/zero/stage_1_and_2.py, stage3.py), with its names, defaults and truncations. What it prints as "GB"
is bytes / 2^30. Up to 0.14.2 stage 2 without offload was estimated as 4P + 16P/n, and DeepSpeed's
documentation still shows examples of that.
"""

from __future__ import annotations

import math
from typing import Any

from .layout import elements_in, layout_of
from .memory import nbytes_of
from .specs import FIELDS, Setup, is_number, shown, total
from .systems import deepspeed
from .systems.deepspeed.parts import sizes_of


def count_of(name: str, value: Any, whole: bool) -> Any:
    """The argument as Python's own number: at least 1 and at most 1e16, and whole where it must be.

    Raises ValueError, naming argument, rule and value, when it is none.
    """
    if not is_number(value) or not -math.inf < value < math.inf:
        raise ValueError(f"{name} must be a number, got {shown(value)}")
    if whole and value != int(value):
        raise ValueError(f"{name} must be a whole number, got {shown(value)}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {shown(value)}")
    if value > FIELDS["N"]["max"]:
        raise ValueError(f"{name} must be at most 1e16, got {shown(value)}")
    return float(value) if isinstance(value, float) or value != int(value) else int(value)


def check_switch(name: str, value: Any) -> None:
    """Raises ValueError unless the argument is True or False."""
    if value is not True and value is not False:
        raise ValueError(f"{name} must be True or False, got {shown(value)}")


def check_factor(value: Any) -> None:
    """Raises ValueError unless the buffer factor is a positive number."""
    if not is_number(value) or not -math.inf < value < math.inf:
        raise ValueError(f"additional_buffer_factor must be a number, got {shown(value)}")
    if value <= 0:
        raise ValueError(f"additional_buffer_factor must be more than 0, got {shown(value)}")


def estimate_zero2_model_states_mem_needs(
    total_params: float,
    num_gpus_per_node: int = 1,
    num_nodes: int = 1,
    cpu_offload: bool = True,
    additional_buffer_factor: float = 1.5,
) -> tuple[int, int]:
    """Bytes of CPU memory per node, and of GPU memory per GPU, of stage 2.

    Raises ValueError for an argument that is no count.

    >>> estimate_zero2_model_states_mem_needs(2851e6, num_gpus_per_node=8, cpu_offload=False)
    (136848000000, 12116750000)
    """
    total_params = count_of("total_params", total_params, False)
    num_gpus_per_node = count_of("num_gpus_per_node", num_gpus_per_node, True)
    num_nodes = count_of("num_nodes", num_nodes, True)
    check_switch("cpu_offload", cpu_offload)
    check_factor(additional_buffer_factor)
    gpus = num_nodes * num_gpus_per_node
    if cpu_offload:
        gpu_mem = 2 * total_params
        cpu_mem = total_params * max(4 * gpus, 16) * additional_buffer_factor
    else:
        gpu_mem = 2 * total_params + int(18 * total_params / gpus)
        cpu_mem = total_params * 4 * num_gpus_per_node * additional_buffer_factor
    return int(cpu_mem), int(gpu_mem)


def estimate_zero3_model_states_mem_needs(
    total_params: float,
    largest_layer_params: float,
    num_gpus_per_node: int = 1,
    num_nodes: int = 1,
    cpu_offload: bool = True,
    cpu_offload_params: bool = True,
    zero_init: bool = True,
    additional_buffer_factor: float = 1.5,
) -> tuple[int, int, float]:
    """Bytes of CPU memory per node, of GPU memory per GPU, and of the largest layer, of stage 3.

    ``cpu_offload_params`` counts only beside ``cpu_offload``. Raises ValueError for an argument that is no
    count.

    >>> estimate_zero3_model_states_mem_needs(2851e6, 32e6, num_gpus_per_node=8)
    (76977000000, 128000000, 128000000.0)
    """
    total_params = count_of("total_params", total_params, False)
    largest_layer_params = count_of("largest_layer_params", largest_layer_params, False)
    if largest_layer_params > total_params:
        rule = f"at most total_params, {shown(total_params)}"
        raise ValueError(f"largest_layer_params must be {rule}, got {shown(largest_layer_params)}")
    num_gpus_per_node = count_of("num_gpus_per_node", num_gpus_per_node, True)
    num_nodes = count_of("num_nodes", num_nodes, True)
    for name, switch in (("cpu_offload", cpu_offload), ("cpu_offload_params", cpu_offload_params)):
        check_switch(name, switch)
    check_switch("zero_init", zero_init)
    check_factor(additional_buffer_factor)
    gpus = num_nodes * num_gpus_per_node
    share = 1 / num_nodes
    largest_layer_memory = 4 * largest_layer_params
    if cpu_offload:
        each = 18 if cpu_offload_params else 16
        gpu_mem = largest_layer_memory
        if not cpu_offload_params:
            gpu_mem = gpu_mem + int(2 * total_params / gpus)
        if zero_init:
            cpu_mem = total_params * each * share * additional_buffer_factor
        else:
            cpu_mem = total_params * max(4 * num_gpus_per_node, each * share) * additional_buffer_factor
    else:
        gpu_mem = largest_layer_memory + int(18 * total_params / gpus)
        held = largest_layer_params if zero_init else total_params
        cpu_mem = held * 4 * num_gpus_per_node * additional_buffer_factor
    return int(cpu_mem), int(gpu_mem), largest_layer_memory


OPTIONS = (
    (2, True, False, False),
    (2, False, False, False),
    (3, True, True, True),
    (3, True, True, False),
    (3, True, False, True),
    (3, True, False, False),
    (3, False, False, True),
    (3, False, False, False),
)
"""Stage, offload_optimizer, offload_param, zero_init: what DeepSpeed prints a line for, in its order."""

INSIDE = "counts gradients in float32 that live only inside the step (+4N/n)"
INSTEAD = (
    "counts gradients in float32, of inside the step, in place of those of 16 bits that are held (+2N/n)"
)
LAYER = "counts 4 bytes per parameter of the largest module"
STAGING = "leaves out a buffer for the largest parameter"
ASSUMED = "takes Adam and parameters of 16 bits for granted"
BUFFERS = "leaves out the bucket of reduce_bucket_size elements, gathered parameters and activations"
BUCKETS = "leaves out buckets of reduce_bucket_size elements during the backward pass, and activations"


def deepspeed_estimates(setup: Setup) -> list[dict[str, Any]]:
    """What DeepSpeed estimates for a setup, line by line, beside what our model of it holds at rest.

    Columns: stage, offload_optimizer, offload_param, zero_init, gpu_bytes (per GPU), cpu_bytes (per node),
    model_bytes (GPU, at rest; None where parameters are offloaded, which we do not model), why (they differ).
    A largest module takes the place of DeepSpeed's largest layer, as it does in its ``model_to_params``.
    DeepSpeed knows full nodes only: where n does not fill them, its GPU bytes are those of n GPUs in one.

    >>> [row["gpu_bytes"] for row in deepspeed_estimates(Setup(N=7.5e9, n=64))][:2]
    [15000000000, 17109375000]
    """
    layout = layout_of(setup)
    largest = 1.0
    for module in layout.modules:
        largest = max(largest, elements_in(list(layout.parameters), list(module.parameters)))
    per_node = min(setup.n, setup.gpus_per_node)
    nodes = math.ceil(setup.n / per_node)
    rows: list[dict[str, Any]] = []
    for stage, offload_optimizer, offload_param, zero_init in OPTIONS:
        cpu, gpu = estimated(
            setup, largest, per_node, nodes, stage, offload_optimizer, offload_param, zero_init
        )
        if per_node * nodes != setup.n:
            _, gpu = estimated(setup, largest, setup.n, 1, stage, offload_optimizer, offload_param, zero_init)
        modelled = setup.but(offload="cpu" if offload_optimizer else "none")
        row: dict[str, Any] = {"stage": stage, "offload_optimizer": offload_optimizer}
        row |= {"offload_param": offload_param, "zero_init": zero_init, "gpu_bytes": gpu, "cpu_bytes": cpu}
        row["model_bytes"] = None if offload_param else nbytes_of(deepspeed.hold(modelled, stage))
        row["why"] = why(setup, stage, offload_optimizer)
        rows.append(row)
    return rows


def estimated(
    setup: Setup,
    largest: float,
    per_node: int,
    nodes: int,
    stage: int,
    offload_optimizer: bool,
    offload_param: bool,
    zero_init: bool,
) -> tuple[int, int]:
    """CPU and GPU bytes of one line."""
    if stage == 2:
        return estimate_zero2_model_states_mem_needs(setup.N, per_node, nodes, offload_optimizer)
    cpu, gpu, _ = estimate_zero3_model_states_mem_needs(
        setup.N, largest, per_node, nodes, offload_optimizer, offload_param, zero_init
    )
    return cpu, gpu


def why(setup: Setup, stage: int, offload_optimizer: bool) -> str:
    """What an estimate counts that is not held at rest, and what it leaves out."""
    parts = [] if offload_optimizer else [INSIDE if stage == 2 else INSTEAD]
    if stage == 3:
        parts.append(LAYER)
    elif offload_optimizer:
        parts.append(STAGING)
    parts.append(BUFFERS if stage == 3 else BUCKETS)
    moments = total([each for _, each in sizes_of(setup, stage).moments])
    if setup.param_dtype == "float32" or moments != 8.0:
        parts.append(ASSUMED)
    return "; ".join(parts)
