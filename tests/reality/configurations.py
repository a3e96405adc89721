"""Which recordings in tests/golden are made again, and with which settings. Needs the standard library alone."""

from pathlib import Path
from typing import Any, NamedTuple

GOLDEN = Path(__file__).parents[1] / "golden"
VERSIONS = {"torch": "2.13.0", "deepspeed": "0.19.8"}  # what the goldens were recorded with


class Configuration(NamedTuple):
    """One recording: n ranks of a system with its settings."""

    system: str  # fsdp2 | ddp | deepspeed, also the folder of the golden
    n: int
    settings: dict[str, Any] = {}  # noqa: RUF012 (a tuple's default, never changed)

    @property
    def fake(self) -> bool:
        """Tell whether only rank 0 exists; more than two real processes are slow on a small machine."""
        return self.n > 2


# Without a persistence threshold and without reuse, or so small a model is gathered once and kept.
STAGE_3 = {
    "stage": 3,
    "stage3_param_persistence_threshold": 0,
    "stage3_max_reuse_distance": 0,
    "stage3_prefetch_bucket_size": 800_000,
}

# By the file name of the golden. FSDP2 settings are fully_shard's, DeepSpeed's those of "zero_optimization".
CONFIGURATIONS = {
    "fsdp2_ws8_fake_default": Configuration("fsdp2", 8),
    "fsdp2_ws8_fake_bf16_fp32": Configuration(
        "fsdp2", 8, {"param_dtype": "bfloat16", "reduce_dtype": "float32"}
    ),
    "fsdp2_ws8_fake_raf_false": Configuration("fsdp2", 8, {"reshard_after_forward": False}),
    "fsdp2_ws8_fake_hsdp_2x4": Configuration("fsdp2", 8, {"mesh": (2, 4)}),
    "fsdp2_ws2_gloo_accum2": Configuration("fsdp2", 2, {"accumulation": 2}),
    "ddp_ws2_gloo_nohook": Configuration("ddp", 2),
    "ds_s1_bf16_ws2_default": Configuration("deepspeed", 2, {"stage": 1}),
    "ds_s2_bf16_ws2_rbucket5e5": Configuration("deepspeed", 2, {"stage": 2, "reduce_bucket_size": 500_000}),
    "ds_s3_bf16_ws2_persist0_reuse0_prefetch8e5": Configuration("deepspeed", 2, STAGE_3),
    "ds_s3_bf16_ws2_live1e6": Configuration(
        "deepspeed", 2, {**STAGE_3, "stage3_max_live_parameters": 1_000_000}
    ),
}


def golden_of(name: str, folder: Path = GOLDEN) -> Path:
    """Return the file that the recording `name` is compared with."""
    return folder / CONFIGURATIONS[name].system / f"{name}.json"
