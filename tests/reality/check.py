"""Record again what PyTorch and DeepSpeed do and compare it with tests/golden: `make reality`.

    python tests/reality/check.py [NAME ...] [--golden FOLDER] [--keep FOLDER]

Exit code 0: all the same; 1: something differs or failed; 2: it cannot be tried here.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from configurations import CONFIGURATIONS, GOLDEN, VERSIONS, golden_of

HERE = Path(__file__).parent
PATIENCE = 300  # seconds for one configuration; each takes less than 30 on two cores
COMPARED = ("phase", "op", "n", "dtype", "in_numel", "out_numel", "group", "trigger")
HELD = ("memory_after_step", "accum_memory", "memory_rank0")
HELD_BY_SOME = ("inner_optimizer_step",)  # not in the older goldens
# Every attribute of DeepSpeed's optimizer that holds bytes is compared, so that a new buffer shows.
COMPLETE = "optimizer_attr_storage_bytes_first_owner_wins"
# On the meta device, which has no memory. The recorder of some goldens counted it all the same.
NOT_HELD = "round_robin_bit16_meta"
ABSENT = "nothing"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CONFIGURATIONS)}")
    parser.add_argument("--golden", type=Path, default=GOLDEN, help="compare with these files")
    parser.add_argument("--keep", type=Path, help="leave the new recordings in this folder")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in CONFIGURATIONS]
    if unknown:
        parser.error(f"NAME must be one of {', '.join(CONFIGURATIONS)}, got {unknown[0]}")
    names = arguments.names or list(CONFIGURATIONS)
    problem = missing_packages(names) or missing_goldens(names, arguments.golden)
    if problem:
        print(f"reality: {problem}", file=sys.stderr)
        return 2

    print("reality:", ", ".join(f"{package} {version(package)}" for package in packages_of(names)))
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        bad = sum(not is_same(name, arguments.golden, folder) for name in names)
    print(f"reality: {len(names) - bad} of {len(names)} recordings are as in {arguments.golden}")
    return 1 if bad else 0


def packages_of(names: list[str]) -> list[str]:
    systems = {CONFIGURATIONS[name].system for name in names}
    return ["torch", "deepspeed"] if "deepspeed" in systems else ["torch"]


def missing_packages(names: list[str]) -> str:
    missing = []
    for package in packages_of(names):
        try:
            version(package)
        except PackageNotFoundError:
            missing.append(f"{package}=={VERSIONS[package]}")
    if not missing:
        return ""
    return f"{sys.executable} lacks {' and '.join(missing)}: run `make reality`, which installs them apart"


def missing_goldens(names: list[str], folder: Path) -> str:
    missing = [str(path) for name in names if not (path := golden_of(name, folder)).exists()]
    return f"no such golden: {', '.join(missing)}" if missing else ""


def is_same(name: str, goldens: Path, folder: Path) -> bool:
    """Record one configuration, print how it compares, and tell whether it is the same."""
    started = time.perf_counter()
    file = folder / f"{name}.json"
    file.unlink(missing_ok=True)
    failure = run(name, file)
    if failure:
        print(f"FAILED   {name}\n{indented(failure)}", flush=True)
        return False
    recorded = json.loads(file.read_text())
    golden = json.loads(golden_of(name, goldens).read_text(encoding="utf-8"))
    difference = next(differences(recorded, golden), None)
    if difference:
        was = ", ".join(f"{package} {golden.get(package, 'unknown')}" for package in packages_of([name]))
        print(f"DIFFERS  {name}, recorded with {was}\n{indented(difference)}", flush=True)
        return False
    count = len(recorded["collectives"])
    print(f"ok       {name}: {count} collectives ({time.perf_counter() - started:.0f} s)", flush=True)
    return True


def run(name: str, file: Path) -> str:
    """Start the ranks of a configuration, wait for them, and return what went wrong, if anything."""
    ranks = 1 if CONFIGURATIONS[name].fake else CONFIGURATIONS[name].n
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {"WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": 1}
    logs = [file.with_suffix(f".rank{rank}.log") for rank in range(ranks)]
    processes = []
    for rank, log in enumerate(logs):
        own = {**shared, "RANK": rank, "LOCAL_RANK": rank}
        with log.open("w") as output:
            processes.append(
                subprocess.Popen(
                    [sys.executable, HERE / "rank.py", name, file],
                    env={**os.environ, **{key: str(value) for key, value in own.items()}},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            )
    # A rank that fails leaves the others waiting for it.
    deadline = time.monotonic() + PATIENCE
    while any(process.poll() is None for process in processes) and time.monotonic() < deadline:
        if any(process.poll() for process in processes):
            break
        time.sleep(0.1)
    late = [process for process in processes if process.poll() is None]
    failed = [rank for rank, process in enumerate(processes) if process.returncode]
    for process in late:
        process.kill()
        process.wait()
    if failed:
        tail = "\n".join(logs[failed[0]].read_text().splitlines()[-15:])
        return f"rank {failed[0]} ended with exit code {processes[failed[0]].returncode}:\n{tail}"
    return f"no end after {PATIENCE} s" if late else ""


def differences(recorded: dict[str, Any], golden: dict[str, Any]) -> Iterator[str]:
    """Yield what differs: collectives in issue order, then bytes. What only the golden knows is left alone."""
    ours, theirs = recorded["collectives"], golden["collectives"]
    for index in range(max(len(ours), len(theirs))):
        new = ours[index] if index < len(ours) else None
        old = {key: theirs[index].get(key) for key in COMPARED} if index < len(theirs) else None
        if new != old:
            yield (
                f"collective {index} (recorded {len(ours)}, golden {len(theirs)})\n"
                f"recorded  {line(new)}\ngolden    {line(old)}"
            )
    for key, held in recorded.items():
        if key in HELD or (key in HELD_BY_SOME and key in golden):
            yield from differing_bytes(held, golden.get(key, ABSENT), key)


def differing_bytes(new: Any, old: Any, place: str) -> Iterator[str]:
    if isinstance(new, dict) and isinstance(old, dict):
        keys = list(new)
        if place.endswith(COMPLETE):
            keys += [key for key in old if key not in new and key != NOT_HELD]
        for key in keys:
            yield from differing_bytes(new.get(key, ABSENT), old.get(key, ABSENT), f"{place}.{key}")
    elif isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
        for index, (ours, theirs) in enumerate(zip(new, old, strict=True)):
            yield from differing_bytes(ours, theirs, f"{place}[{index}]")
    elif new != old:
        yield f"{place}\nrecorded  {new}\ngolden    {old}"


def line(collective: dict[str, Any] | None) -> str:
    """Return a collective in one line, such as `bwd all_gather float32 n=8 98720 -> 789760 for blocks.3 (…)`."""
    if collective is None:
        return ABSENT
    text = "{phase} {op} {dtype} n={n} {in_numel} -> {out_numel}".format(**collective)
    group, trigger = collective["group"], collective["trigger"]
    return text if group is None else f"{text} for {group or 'the whole model'} ({trigger})"


def indented(text: str) -> str:
    return "\n".join(f"         {row}" for row in text.splitlines())


if __name__ == "__main__":
    sys.exit(main())
