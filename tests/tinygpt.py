"""The models of the recordings, as shapes: a tiny GPT, and its blocks alone."""

from __future__ import annotations

Shapes = dict[str, tuple[int, ...] | str]


def block_shapes(name: str, h: int) -> Shapes:
    """One block: two norms, attention's two matrices, and a two-layer perceptron, all with biases."""
    return {
        f"{name}.ln1.weight": (h,),
        f"{name}.ln1.bias": (h,),
        f"{name}.qkv.weight": (3 * h, h),
        f"{name}.qkv.bias": (3 * h,),
        f"{name}.proj.weight": (h, h),
        f"{name}.proj.bias": (h,),
        f"{name}.ln2.weight": (h,),
        f"{name}.ln2.bias": (h,),
        f"{name}.up.weight": (4 * h, h),
        f"{name}.up.bias": (4 * h,),
        f"{name}.down.weight": (h, 4 * h),
        f"{name}.down.bias": (h,),
    }


def tinygpt_shapes(L: int = 4, h: int = 256, vocab: int = 1024, seq: int = 32, tied: bool = False) -> Shapes:
    """The recorded GPT: two embeddings, L blocks, a norm, and a head that may share the embedding.

    In the order of ``named_parameters``: 3,692,032 elements by default, 3,429,888 when tied.
    """
    shapes: Shapes = {"tok.weight": (vocab, h), "pos.weight": (seq, h)}
    for layer in range(L):
        shapes |= block_shapes(f"blocks.{layer}", h)
    shapes |= {"norm.weight": (h,), "norm.bias": (h,)}
    shapes["head.weight"] = "tok.weight" if tied else (vocab, h)
    return shapes


def blocks_only_shapes(L: int = 3, h: int = 64) -> Shapes:
    """L blocks and nothing outside them."""
    shapes: Shapes = {}
    for layer in range(L):
        shapes |= block_shapes(f"blocks.{layer}", h)
    return shapes
