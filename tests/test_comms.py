"""Bytes and seconds of collectives, the link they cross: nccl-tests, hardware tables, measured sweeps."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from zerowidget import Setup, communication_rows
from zerowidget.comms import seconds, wire_bytes
from zerowidget.specs import GPUS, LINKS, RECIPES, cluster_of

GOLDEN = Path(__file__).parent / "golden" / "hardware"
NCCL = {"AllReduce": "all_reduce", "ReduceScatter": "reduce_scatter", "AllGather": "all_gather"}
OPS = list(NCCL.values())


def golden(name):
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


def rows_of(name):
    """The rows of a hardware table by the name in their first column."""
    table = golden(name)
    return {row[0]: dict(zip(table["columns"], row, strict=True)) for row in table["rows"]}


# nccl-tests


@pytest.mark.parametrize("name", NCCL)
@pytest.mark.parametrize("n", [2, 8, 64, 1024])
def test_bus_bandwidth_is_the_link_s_when_latency_is_nothing(name, n):
    cluster = replace(cluster_of(Setup(n=n)), latency=0.0)
    factor = eval(rows_of("nccl_busbw_factors")[name]["factor"], {"n": n})
    algorithm_bandwidth = 1e9 / seconds(NCCL[name], 1e9, cluster)
    assert algorithm_bandwidth * factor == pytest.approx(cluster.bandwidth, rel=1e-12)


@pytest.mark.parametrize("name", NCCL)
@pytest.mark.parametrize("n", [2, 3, 8, 1000])
def test_ideal_time_is_nccl_s_formula(name, n):
    cluster = replace(cluster_of(Setup(n=n)), latency=0.0)
    ideal = golden("nccl_busbw_factors")["ideal_time"][name]
    assert seconds(NCCL[name], 3e8, cluster) == pytest.approx(
        eval(ideal, {"S": 3e8, "n": n, "B": cluster.bandwidth}), rel=1e-12
    )


@pytest.mark.parametrize("op", OPS)
def test_seconds_by_hand(op):
    # 4 ranks, 64 MB, 100 MB/s, 1 ms a step: 3 steps of 1 ms + 16 MB / 100 MB/s = 161 ms each
    cluster = replace(cluster_of(Setup()), n=4, bandwidth=1e8, latency=1e-3)
    assert seconds(op, 64e6, cluster) == pytest.approx({"all_reduce": 6}.get(op, 3) * 0.161, rel=1e-12)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 64, 1000])
def test_a_rank_sends_all_but_its_own_share(op, n):
    full = 3 * 2**30
    exact = Fraction(n - 1, n) * full * (2 if op == "all_reduce" else 1)
    assert wire_bytes(op, float(full), n) == float(exact)


@pytest.mark.parametrize("n", [2, 3, 64])
def test_an_all_reduce_costs_a_reduce_scatter_and_an_all_gather(n):
    cluster = cluster_of(Setup(n=n))
    halves = wire_bytes("reduce_scatter", 1e9, n) + wire_bytes("all_gather", 1e9, n)
    assert wire_bytes("all_reduce", 1e9, n) == halves
    assert seconds("all_reduce", 1e9, cluster) == pytest.approx(
        seconds("reduce_scatter", 1e9, cluster) + seconds("all_gather", 1e9, cluster), rel=1e-12
    )


@pytest.mark.parametrize("op", OPS)
def test_one_rank_sends_nothing_and_takes_no_time(op):
    assert wire_bytes(op, 1e9, 1) == 0.0
    assert seconds(op, 1e9, cluster_of(Setup(n=1))) == 0.0


def test_rows_add_up_what_each_collective_takes():
    # 16 layers of 1e9 / 16 elements, 2 bytes each: 125e6 B. EFA v1 carries 50 GB/s out of a node of 8 GPUs,
    # all of it for the ring: 63 steps of 6 us + 125e6 B / 64 / 50 GB/s, twice round
    row = communication_rows(Setup(N=1e9, n=64, layers=16, link="EFA-v1"))[0]
    assert (row["op"], row["count"], row["nbytes"]) == ("all_reduce", 16, 2e9)
    assert row["wire_bytes"] == 2 * 2e9 * 63 / 64
    assert row["seconds"] == pytest.approx(16 * 2 * 63 * (6e-6 + 125e6 / 64 / 50e9), rel=1e-12)


# Which link is crossed


def test_inside_a_node_the_gpus_own_link_carries():
    cluster = cluster_of(Setup(gpu="H100-80GB", n=8, gpus_per_node=8, link="Ethernet-10G"))
    assert (cluster.link, cluster.bandwidth, cluster.latency) == ("NVLink-4", 450e9, 3e-6)


def test_one_gpu_more_crosses_the_network():
    # 9 GPUs in nodes of 4: 4 ports of 50 GB/s carry 200 GB/s, less than the 450 of NVLink 4
    cluster = cluster_of(Setup(gpu="H100-80GB", n=9, gpus_per_node=4, link="InfiniBand-NDR"))
    assert (cluster.link, cluster.bandwidth, cluster.latency) == ("InfiniBand-NDR", 200e9, 6e-6)
    cluster = cluster_of(Setup(gpu="H100-80GB", n=9, gpus_per_node=8, link="Ethernet-100G"))
    assert (cluster.link, cluster.bandwidth, cluster.latency) == ("Ethernet-100G", 12.5e9, 6e-6)


@pytest.mark.parametrize("gpus_per_node", [1, 4, 8, 16])
@pytest.mark.parametrize(("link", "bandwidth"), [("EFA-v1", 50e9), ("Ethernet-10G", 1.25e9)])
def test_a_node_s_link_is_all_the_ring_s_however_many_gpus_share_it(gpus_per_node, link, bandwidth):
    # only one GPU of a node sends to the next node on any one ring
    cluster = cluster_of(Setup(gpu="A100-40GB", n=64, gpus_per_node=gpus_per_node, link=link))
    assert (cluster.link, cluster.bandwidth) == (link, bandwidth)


# 25 GB/s a port; NVLink 4 carries 450, which 18 ports reach
@pytest.mark.parametrize(("gpus_per_node", "bandwidth"), [(1, 25e9), (4, 100e9), (8, 200e9), (16, 400e9)])
def test_a_port_per_gpu_adds_up_over_the_node(gpus_per_node, bandwidth):
    cluster = cluster_of(Setup(gpu="H100-80GB", n=64, gpus_per_node=gpus_per_node, link="InfiniBand-HDR"))
    assert (cluster.link, cluster.bandwidth) == ("InfiniBand-HDR", bandwidth)


@pytest.mark.parametrize(
    ("gpu", "gpus_per_node", "link", "inside", "bandwidth"),
    [
        ("L4", 8, "EFA-v2", "PCIe-4", 31e9),  # 400 GB/s out of the node, each GPU takes in 31
        ("L4", 2, "InfiniBand-HDR", "PCIe-4", 31e9),  # 2 x 25 = 50
        ("H100-80GB", 8, "InfiniBand-XDR", "NVLink-4", 450e9),  # 8 x 100 = 800
        ("A100-80GB", 8, "InfiniBand-NDR", "NVLink-3", 300e9),  # 8 x 50 = 400
        ("H100-80GB", 18, "InfiniBand-HDR", "NVLink-4", 450e9),  # 18 x 25 = 450: as fast
    ],
)
def test_a_network_faster_than_the_inside_does_not_help(gpu, gpus_per_node, link, inside, bandwidth):
    # the latency of the network remains
    cluster = cluster_of(Setup(gpu=gpu, n=64, gpus_per_node=gpus_per_node, link=link))
    assert (cluster.link, cluster.bandwidth, cluster.latency) == (inside, bandwidth, 6e-6)


# The tables

GPU = {
    "V100-16GB": "V100-16GB SXM2",
    "V100-32GB": "V100-32GB SXM",
    "A100-40GB": "A100-40GB",
    "A100-80GB": "A100-80GB SXM",
    "H100-80GB": "H100-80GB SXM",
    "H200-141GB": "H200-141GB SXM",
    "B200-180GB": "B200 SXM",
    "RTX-3090": "RTX 3090",
    "RTX-4090": "RTX 4090",
    "RTX-5090": "RTX 5090",
    "L4": "L4",
    "L40S": "L40S",
    "T4": "T4",
    "MI300X": "MI300X",
}
HALF_A_CARD = {"MI250X-GCD": "MI250X (whole card, 2 GCDs)"}  # a rank runs on one of its two dies


def test_every_gpu_of_the_table_is_offered():
    assert {*GPU, *HALF_A_CARD} == set(GPUS)
    assert {*GPU.values(), *HALF_A_CARD.values()} == set(rows_of("gpu_specs"))


@pytest.mark.parametrize("gpu", GPU)
def test_a_gpu_is_what_the_table_says(gpu):
    printed, ours = rows_of("gpu_specs")[GPU[gpu]], GPUS[gpu]
    # what torch can allocate from, or, where nobody printed that, what nvidia-smi shows
    by_torch = printed["torch_total_memory_MiB"]
    assert ours["memory_MiB"] == (by_torch or printed["nvidia_smi_MiB"])
    assert ours["memory_from"] == ("torch total_memory" if by_torch else "nvidia-smi total")
    assert ours["flops"] == (printed["dense_bf16_tflops"] or printed["dense_fp16_tflops"]) * 1e12
    assert ours["memory_bandwidth"] == printed["mem_bw_GBps"] * 1e9


@pytest.mark.parametrize("gpu", HALF_A_CARD)
def test_a_die_is_half_its_card(gpu):
    printed, ours = rows_of("gpu_specs")[HALF_A_CARD[gpu]], GPUS[gpu]
    assert f"per GCD: torch {ours['memory_MiB']} MiB, {ours['flops'] / 1e12} TFLOPS" in printed["sources"]
    assert ours["flops"] == printed["dense_bf16_tflops"] * 1e12 / 2
    assert ours["memory_bandwidth"] == printed["mem_bw_GBps"] * 1e9 / 2


@pytest.mark.parametrize("gpu", GPUS)
def test_a_gpu_holds_a_little_less_or_more_than_its_name(gpu):
    named = rows_of("gpu_specs")[{**GPU, **HALF_A_CARD}[gpu]]["marketed_GB"] / (
        2 if gpu in HALF_A_CARD else 1
    )
    assert cluster_of(Setup(gpu=gpu)).capacity == pytest.approx(named * 2**30, rel=0.07)


LINK = {
    "NVLink-2": "NVLink 2",
    "NVLink-3": "NVLink 3",
    "NVLink-4": "NVLink 4",
    "NVLink-5": "NVLink 5",
    "PCIe-4": "PCIe 4 x16",
    "PCIe-5": "PCIe 5 x16",
    "InfinityFabric-MI300X": "Infinity Fabric MI300X all-to-all",
    "InfinityFabric-MI250X": "Infinity Fabric MI250X all-to-all",
    "InfiniBand-EDR": "InfiniBand EDR port",
    "InfiniBand-HDR": "InfiniBand HDR port",
    "InfiniBand-NDR": "InfiniBand NDR port",
    "InfiniBand-XDR": "InfiniBand XDR port",
    "EFA-v1": "AWS EFA v1 P4d node (4x100 Gb)",
    "EFA-v2": "AWS EFA v2 P5 node (32x100 Gb)",
    "EFA-v3": "AWS EFA v3 P5en node (16x200 Gb)",
    "EFA-v4": "AWS EFA v4 P6-B200 node (8x400 Gb)",
}
BITS_PER_SECOND = {
    "PCIe-3": 16 * 8e9 * 128 / 130,  # 16 lanes of 8 GT/s, 128 bits of data in 130
    "Ethernet-100G": 100e9,
    "Ethernet-25G": 25e9,
    "Ethernet-10G": 10e9,
}


@pytest.mark.parametrize("link", LINK)
def test_a_link_is_what_the_table_says_in_one_direction(link):
    printed = rows_of("link_bandwidth")[LINK[link]]
    assert LINKS[link]["bandwidth"] == printed["unidirectional"] * 1e9
    assert LINKS[link]["per"] == ("node" if "node" in printed["link"] else "gpu")


@pytest.mark.parametrize("link", BITS_PER_SECOND)
def test_other_links_carry_their_line_rate(link):
    assert LINKS[link]["bandwidth"] == pytest.approx(BITS_PER_SECOND[link] / 8, rel=5e-4)


def test_every_link_was_checked():
    assert {*LINK, *BITS_PER_SECOND} == set(LINKS)


@pytest.mark.parametrize("gpu", ["V100-32GB", "A100-80GB", "H100-80GB", "H200-141GB", "B200-180GB", "MI300X"])
def test_a_gpu_has_the_link_of_its_generation(gpu):
    family = gpu.partition("-")[0]
    printed = rows_of("link_bandwidth")[LINK[GPUS[gpu]["link"]]]
    assert family in printed["gpu"].split("/")


@pytest.mark.parametrize("gpu", GPUS)
def test_a_gpu_s_link_is_one_inside_the_node(gpu):
    assert LINKS[GPUS[gpu]["link"]]["scope"] == "inside"


@pytest.mark.parametrize(
    "entry",
    [*GPUS.values(), *LINKS.values(), *RECIPES.values()],
    ids=[*GPUS, *LINKS, *RECIPES],
)
def test_every_constant_names_its_source(entry):
    assert len(entry["source"]) > 10


# Latency: small messages take what was measured


def test_a_small_all_reduce_inside_a_node_takes_what_was_measured():
    measured = 32 * 2**10 / (rows_of("measured_allreduce_sweep_8xH200")["32KiB"]["algbw"] * 1e9)
    cluster = cluster_of(Setup(gpu="H200-141GB", n=8))
    assert 14 * cluster.latency == pytest.approx(measured, rel=0.1)
    assert seconds("all_reduce", 32 * 2.0**10, cluster) == pytest.approx(measured, rel=0.1)


def test_a_small_all_reduce_across_nodes_takes_what_was_measured():
    bus = rows_of("measured_allreduce_sweep_P6_B200")["1MiB"]["four_nodes_32"] * 1e9
    measured = 2**20 / (bus / (2 * 31 / 32))
    cluster = cluster_of(Setup(gpu="B200-180GB", n=32, link="EFA-v4"))
    assert 62 * cluster.latency == pytest.approx(measured, rel=0.1)
    assert seconds("all_reduce", 2.0**20, cluster) == pytest.approx(measured, rel=0.1)


# Bandwidth: large messages reach what was measured

LARGE = [f"{gib}GiB" for gib in (1, 2, 4, 8, 16)]


def bus_bandwidth(nbytes, cluster):
    """As nccl-tests counts it: what every rank sends, over the time."""
    return 2 * (cluster.n - 1) / cluster.n * nbytes / seconds("all_reduce", nbytes, cluster)


@pytest.mark.parametrize("sweep", ["measured_allreduce_sweep_8xH200", "measured_allreduce_sweep_P6_B200"])
def test_no_large_message_of_a_sweep_is_left_out(sweep):
    assert [payload for payload in rows_of(sweep) if payload.endswith("GiB")] == LARGE


@pytest.mark.parametrize("payload", LARGE)
def test_a_large_all_reduce_inside_a_node_reaches_the_measured_bus_bandwidth(payload):
    measured = rows_of("measured_allreduce_sweep_8xH200")[payload]["busbw"] * 1e9
    nbytes = float(payload.removesuffix("GiB")) * 2**30
    ours = bus_bandwidth(nbytes, cluster_of(Setup(gpu="H200-141GB", n=8, gpus_per_node=8)))
    assert ours == pytest.approx(measured, rel=0.12)


@pytest.mark.parametrize("payload", LARGE)
def test_a_large_all_reduce_across_nodes_reaches_the_measured_bus_bandwidth(payload):
    measured = rows_of("measured_allreduce_sweep_P6_B200")[payload]["four_nodes_32"] * 1e9
    nbytes = float(payload.removesuffix("GiB")) * 2**30
    cluster = cluster_of(Setup(gpu="B200-180GB", n=32, gpus_per_node=8, link="EFA-v4"))
    assert cluster.link == "EFA-v4"
    ours = bus_bandwidth(nbytes, cluster)
    assert ours == pytest.approx(measured, rel=0.12)
    # one port of the node's eight, 50 GB/s, would be off by more than 5 x
    assert min(ours, measured) > 300e9 > 5 * LINKS["EFA-v4"]["bandwidth"] / 8


@pytest.mark.parametrize("link", LINKS)
def test_links_without_a_sweep_take_the_latency_of_those_with_one(link):
    swept = {"inside": "NVLink-4", "between": "EFA-v4"}[LINKS[link]["scope"]]
    assert LINKS[link]["latency"] == LINKS[swept]["latency"]
