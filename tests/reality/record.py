"""A recorder: the collectives a rank issues, in issue order, and the bytes its tensors hold.

Everything that happens on the way to a collective stays what the libraries make of it: the recorder only looks
at the operators that pass through PyTorch's dispatcher.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import distributed
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

# The names of torch.distributed, for the operators it calls. Others are recorded under their own name.
NAMES = {
    "_allgather_base_": "all_gather",
    "_reduce_scatter_base_": "reduce_scatter",
    "allreduce_": "all_reduce",
    "broadcast_": "broadcast",
    "reduce_": "reduce",
}


class Recorder(TorchDispatchMode):
    """While entered, notes every collective with its phase and with what `cause` says it is for."""

    def __init__(self) -> None:
        super().__init__()
        self.phase = ""
        self.ranges: list[str] = []  # the open torch.profiler.record_function ranges, outermost first
        self.cause: Callable[[], tuple[str | None, str | None]] = lambda: (None, None)  # group, trigger
        self.collectives: list[dict[str, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        namespace, name = func._schema.name.split("::")
        if namespace == "profiler" and name.startswith("_record_function_enter"):
            self.ranges.append(args[0])
        elif namespace == "profiler":
            self.ranges.pop()
        elif namespace == "c10d" and "barrier" not in name:
            given = {
                argument.name: value for argument, value in zip(func._schema.arguments, args, strict=False)
            }
            self.note(NAMES.get(name, name), given)
        return func(*args, **(kwargs or {}))

    def note(self, op: str, given: dict[str, Any]) -> None:
        outputs = [t for key in given if key.startswith("output") for t in tensors_in(given[key])]
        inputs = [t for key in given if key.startswith("input") for t in tensors_in(given[key])]
        if not outputs and not inputs:
            outputs = inputs = [t for key in ("tensors", "tensor") for t in tensors_in(given.get(key))]
        group, trigger = self.cause()
        self.collectives.append(
            {
                "phase": self.phase,
                "op": op,
                "n": distributed.ProcessGroup.unbox(given["process_group"]).size(),
                "dtype": ",".join(sorted({name_of(t.dtype) for t in [*inputs, *outputs]})),
                "in_numel": sum(t.numel() for t in inputs),
                "out_numel": sum(t.numel() for t in outputs),
                "group": group,
                "trigger": trigger,
            }
        )


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Return the tensors of an operator's argument, which can be nested lists of them."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for part in value for tensor in tensors_in(part)]
    return []


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def bytes_of(tensors: Iterable[torch.Tensor | None]) -> int:
    """Return the bytes this rank holds of some tensors; of a sharded one, its shard."""
    local = [tensor.to_local() if isinstance(tensor, DTensor) else tensor for tensor in tensors]
    return sum(tensor.numel() * tensor.element_size() for tensor in local if tensor is not None)


def moments_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return the state tensors of an optimizer, without its step counters."""
    return [
        value
        for state in optimizer.state.values()
        for value in state.values()
        if isinstance(value, torch.Tensor) and value.numel() > 1
    ]
