"""Recordings of DeepSpeed's ZeRO, stages 1 to 3, in bf16 with PyTorch's Adam on the CPU."""

import logging
from typing import Any

import deepspeed
import deepspeed.ops
import torch
from deepspeed.runtime.zero.partitioned_param_coordinator import PartitionedParameterCoordinator
from deepspeed.utils.logging import logger
from record import Recorder, bytes_of, moments_of, name_of
from tinygpt_model import MICRO_BATCH, TinyGPT, batch

# Plain gloo: DeepSpeed's shared-memory collectives would be compiled first.
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
logger.setLevel(logging.WARNING)

STEPS = 3  # stage 3 traces the modules in its first two and prefetches from the third
GATHER = "_PartitionedParameterCoordinator__all_gather_params"


def record_deepspeed(
    recorder: Recorder, rank: int, n: int, fake: bool, settings: dict[str, Any]
) -> dict[str, Any]:
    """Record the third step of a DeepSpeed engine with `settings` as its "zero_optimization"."""
    model = TinyGPT()
    engine, optimizer, _, _ = deepspeed.initialize(
        model=model,
        config={
            "train_micro_batch_size_per_gpu": MICRO_BATCH,
            "bf16": {"enabled": True},
            "zero_optimization": settings,
            "zero_force_ds_cpu_optimizer": False,
            "zero_allow_untested_optimizer": True,
            "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "torch_adam": True}},
        },
    )
    inside = watch_inner_step(optimizer.optimizer)
    if settings["stage"] == 3:
        watch_fetches(recorder, model)
    memory = []
    for step in range(STEPS):
        recorder.collectives.clear()
        recorder.phase = "fwd"
        loss = engine(*batch(1000 * step + rank))
        recorder.phase = "bwd"
        engine.backward(loss)
        if step == STEPS - 1:
            memory.append({"when": "after_backward_before_step", **held_by(model, optimizer)})
        recorder.phase = "step"
        engine.step()
    memory.append({"when": "after_step", **held_by(model, optimizer)})
    return {
        "collectives": recorder.collectives,
        "memory_rank0": memory,
        "inner_optimizer_step": inside,
    }


def watch_fetches(recorder: Recorder, model: torch.nn.Module) -> None:
    """Make stage 3 say for which module it gathers: as needed now (fetch) or ahead of need (prefetch)."""
    names = {module: name for name, module in model.named_modules()}
    causes: list[tuple[str | None, str | None]] = [(None, None)]
    recorder.cause = lambda: causes[-1]
    coordinator = PartitionedParameterCoordinator
    fetch_sub_module, gather = coordinator.fetch_sub_module, getattr(coordinator, GATHER)
    own: set[int] = set()

    def fetch(self: Any, module: torch.nn.Module, forward: bool) -> None:
        own.clear()
        own.update(id(parameter) for parameter in module.parameters(recurse=False))
        causes.append((names[module], "fetch"))
        try:
            fetch_sub_module(self, module, forward)
        finally:
            causes.pop()

    def gather_and_say(self: Any, parameters: Any, forward: bool) -> None:
        needed = all(id(parameter) in own for parameter in parameters)
        causes.append((causes[-1][0], "fetch" if needed else "prefetch"))
        try:
            gather(self, parameters, forward)
        finally:
            causes.pop()

    coordinator.fetch_sub_module = fetch
    setattr(coordinator, GATHER, gather_and_say)


def watch_inner_step(inner: torch.optim.Optimizer) -> dict[str, Any]:
    """Return a dict that receives what Adam works on while it runs; its gradients exist only then."""
    seen: dict[str, Any] = {}
    inner_step = inner.step

    def step(*args: Any, **kwargs: Any) -> Any:
        parameters = [p for group in inner.param_groups for p in group["params"]]
        gradients = [p.grad for p in parameters if p.grad is not None]
        seen["inner_param_bytes"] = bytes_of(parameters)
        seen["inner_grad_bytes"] = bytes_of(gradients)
        seen["inner_grad_dtype"] = sorted({f"torch.{name_of(gradient.dtype)}" for gradient in gradients})
        return inner_step(*args, **kwargs)

    inner.step = step
    return seen


def held_by(model: torch.nn.Module, optimizer: Any) -> dict[str, Any]:
    """Return the bytes of parameters and moments, and of whatever else the ZeRO optimizer's attributes hold."""
    parameters = list(model.parameters())
    seen: set[int] = set()
    attributes = {
        name: storage_bytes(value, seen)
        for name, value in vars(optimizer).items()
        if name not in ("module", "optimizer", "parameter_offload")
    }
    held = {
        "module_param_bytes": bytes_of(p.data for p in parameters),
        "module_grad_bytes": bytes_of(p.grad for p in parameters),
        "optim_state_bytes": bytes_of(moments_of(optimizer.optimizer)),
        "optimizer_attr_storage_bytes_first_owner_wins": {k: v for k, v in attributes.items() if v},
    }
    if hasattr(parameters[0], "ds_tensor"):
        held["ds_tensor_bytes"] = bytes_of(p.ds_tensor for p in parameters)
    return held


def storage_bytes(value: Any, seen: set[int], depth: int = 0) -> int:
    """Return the bytes of all storages in nested containers and buckets that are not in `seen` yet."""
    if isinstance(value, torch.Tensor):
        storage = value.untyped_storage()
        if value.device.type == "meta" or storage.data_ptr() in seen:
            return 0
        seen.add(storage.data_ptr())
        return storage.nbytes()
    if "Bucket" in type(value).__name__:
        value = vars(value)
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple, set)):
        return 0
    return sum(storage_bytes(part, seen, depth + 1) for part in value) if depth < 5 else 0
