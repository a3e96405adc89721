"""Recordings of PyTorch's own FSDP2 (`fully_shard`) and DDP."""

import re
from typing import Any

import torch
from record import Recorder, bytes_of, moments_of
from tinygpt_model import TinyGPT, batch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

FSDP_RANGE = re.compile(r"FSDP::(\w+)(?: for (\S+)| \((\S+)\))?")


def record_fsdp2(
    recorder: Recorder, rank: int, n: int, fake: bool, settings: dict[str, Any]
) -> dict[str, Any]:
    """Record the second step of FSDP2, with every layer and then the model as a group."""
    model = TinyGPT()
    shape = settings.get("mesh", (n,))
    options: dict[str, Any] = {
        "mesh": init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard")[-len(shape) :])
    }
    if "reshard_after_forward" in settings:
        options["reshard_after_forward"] = settings["reshard_after_forward"]
    if "param_dtype" in settings:
        dtypes = (getattr(torch, settings[key]) for key in ("param_dtype", "reduce_dtype"))
        options["mp_policy"] = MixedPrecisionPolicy(*dtypes)
    for block in model.blocks:
        fully_shard(block, **options)
    fully_shard(model, **options)
    if not fake:
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.set_force_sum_reduction_for_comms(True)  # gloo knows no average
    optimizer = torch.optim.Adam(model.parameters())

    accumulation = settings.get("accumulation", 1)
    between: list[dict[str, int]] = []
    recorder.cause = lambda: cause_of(recorder.ranges)
    for step in range(2):
        recorder.collectives.clear()
        for micro in range(accumulation):
            prefix = f"mb{micro}." if accumulation > 1 else ""
            model.set_requires_gradient_sync(micro == accumulation - 1)
            recorder.phase = f"{prefix}fwd"
            loss = model(*batch(1000 * step + 10 * micro + rank)) / accumulation
            recorder.phase = f"{prefix}bwd"
            loss.backward()
            if accumulation > 1:
                between.append(
                    {
                        "after_mb": micro,
                        "unsharded_grad_bytes": bytes_of(whole_gradients(model)),
                        "sharded_grad_bytes_as_seen": bytes_of(p.grad for p in model.parameters()),
                    }
                )
        recorder.phase = "step"
        optimizer.step()
        held = held_by(model, optimizer)
        optimizer.zero_grad()
    return {
        "collectives": recorder.collectives,
        "memory_after_step": held,
        **({"accum_memory": between} if between else {}),
    }


def cause_of(ranges: list[str]) -> tuple[str | None, str | None]:
    """Return the parameter group and the hook of a collective, from the profiler ranges FSDP2 opens around it.

    "FSDP::pre_backward (blocks.3)", "FSDP::backward_prefetch for blocks.2", "FSDP::all_gather (blocks.2)" is
    a gather for blocks.2 that the backward pass of blocks.3 asked for. The root's ranges name no group.
    """
    ours = [found for text in ranges if (found := FSDP_RANGE.fullmatch(text))]
    if not ours:
        return None, None
    groups = [found[2] or found[3] or "root" for found in ours]
    hook = ours[-2] if ours[-1][1] == "all_gather" and len(ours) > 1 else ours[-1]
    trigger = f"{hook[1]}@{groups[0]}" if hook[2] else hook[1].removesuffix("_reduce")
    return groups[-1], trigger


def whole_gradients(model: torch.nn.Module) -> list[torch.Tensor | None]:
    """Return the gradients FSDP2 keeps unsharded between micro-batches; it has no public name for them."""
    found: list[torch.Tensor | None] = []
    for module in model.modules():
        if isinstance(module, FSDPModule):
            for group in module._get_fsdp_state()._fsdp_param_groups:
                for parameter in group.fsdp_params:
                    kept = parameter.unsharded_accumulated_grad
                    found.append(parameter._unsharded_param.grad if kept is None else kept)
    return found


def record_ddp(recorder: Recorder, rank: int, n: int, fake: bool, settings: dict[str, Any]) -> dict[str, Any]:
    """Record the third step of DDP: it fills its buckets anew after the first."""
    model = TinyGPT()
    replica = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(3):
        recorder.collectives.clear()
        recorder.phase = "fwd"
        loss = replica(*batch(1000 * step + rank))
        recorder.phase = "bwd"
        loss.backward()
        recorder.phase = "step"
        optimizer.step()
        held = held_by(model, optimizer)
        optimizer.zero_grad()
    return {"collectives": recorder.collectives, "memory_after_step": held}


def held_by(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, int]:
    """Return the bytes of the model states, with gradients still there."""
    return {
        "param_bytes": bytes_of(model.parameters()),
        "grad_bytes": bytes_of(p.grad for p in model.parameters()),
        "optim_bytes": bytes_of(moments_of(optimizer)),
    }
