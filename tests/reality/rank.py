"""What one rank runs: `python rank.py NAME FILE` records configuration NAME and, on rank 0, writes FILE.

A configuration of several real processes wants RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT in the
environment, as torchrun sets them; one with a fake process group runs alone.
"""

import json
import os
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

os.environ["DS_ACCELERATOR"] = "cpu"
warnings.filterwarnings("ignore")

import torch  # noqa: E402
from configurations import CONFIGURATIONS  # noqa: E402
from record import Recorder  # noqa: E402
from torch import distributed  # noqa: E402


def main(name: str, file: str) -> None:
    system, n, settings = CONFIGURATIONS[name]
    fake = CONFIGURATIONS[name].fake
    if fake:
        from torch.testing._internal.distributed.fake_pg import FakeStore

        distributed.init_process_group("fake", rank=0, world_size=n, store=FakeStore())
    else:
        distributed.init_process_group("gloo")
        if distributed.get_world_size() != n:
            sys.exit(f"{name} wants {n} processes, got {distributed.get_world_size()}")
    if system == "deepspeed":
        from with_deepspeed import record_deepspeed as record
    elif system == "ddp":
        from with_torch import record_ddp as record
    else:
        from with_torch import record_fsdp2 as record

    torch.set_num_threads(1)
    torch.manual_seed(0)
    rank = distributed.get_rank()
    recorder = Recorder()
    with recorder:
        recording = record(recorder, rank, n, fake, settings)
    if rank == 0:
        packages = ("torch", "deepspeed") if system == "deepspeed" else ("torch",)
        versions = {package: version(package) for package in packages}
        Path(file).write_text(json.dumps({"name": name, **versions, **recording}, indent=1) + "\n")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
