"""The model of every recording: 3,692,032 parameters, 789,760 in each of 4 layers and 532,992 outside them.

The goldens name its modules and depend on the order in which they are made and called.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

HIDDEN, HEADS, LAYERS = 256, 4, 4
VOCAB, SEQ_LEN, MICRO_BATCH = 1024, 32, 2


class Block(nn.Module):
    """A pre-norm transformer layer with causal attention and a fourfold MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.ln1 = nn.LayerNorm(HIDDEN)
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.proj = nn.Linear(HIDDEN, HIDDEN)
        self.ln2 = nn.LayerNorm(HIDDEN)
        self.up = nn.Linear(HIDDEN, 4 * HIDDEN)
        self.down = nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.proj(self.attend(self.qkv(self.ln1(x))))
        return x + self.down(functional.gelu(self.up(self.ln2(x))))

    def attend(self, qkv: Tensor) -> Tensor:
        query, key, value = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in qkv.chunk(3, dim=-1))
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return mixed.transpose(1, 2).flatten(2)


class TinyGPT(nn.Module):
    """Token and position embeddings, the layers, a final norm and an untied head; called with a batch, gives the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.tok = nn.Embedding(VOCAB, HIDDEN)
        self.pos = nn.Embedding(SEQ_LEN, HIDDEN)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, VOCAB, bias=False)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x = self.tok(tokens) + self.pos(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def batch(seed: int) -> tuple[Tensor, Tensor]:
    """Return tokens and targets of one micro-batch, drawn from `seed`."""
    generator = torch.Generator().manual_seed(seed)
    both = torch.randint(VOCAB, (2, MICRO_BATCH, SEQ_LEN), generator=generator)
    return both[0], both[1]
