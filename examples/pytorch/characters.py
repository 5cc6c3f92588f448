"""A small transformer that learns to continue a text, character by character, and then writes with
its layers cut over the ranks (tensor parallel): after the attention and after the MLP of each block
the ranks add up their parts, one all_reduce each, for every character. Those are what the time of a
step consists of where a model is small or a machine is one.

    gloo run -n 2 -- python examples/pytorch/characters.py --backend gloo_c

--train 0 writes without learning: for times. A batch of B texts is B * width * 4 bytes an
all_reduce: 8 KiB for 8 texts of width 256."""

import torch
import torch.distributed as dist
from job import Clock, options, say
from torch import nn
from torch.nn.parallel import DistributedDataParallel

TEXT = """the rain that falls on the hill runs to the river, and the river runs to the sea.
the sea gives the rain back to the wind, and the wind brings the rain to the hill.
what goes round comes round: hill and river, river and sea, sea and wind, wind and hill.
""" * 8
LETTERS = sorted(set(TEXT))
CODES = torch.tensor([LETTERS.index(letter) for letter in TEXT])

given = options(__doc__, width=128, heads=4, blocks=2, context=64, train=120, write=60, texts=1)
rank, size = dist.get_rank(), dist.get_world_size()
if given.heads % size or given.width % given.heads:
    raise SystemExit(f"{given.heads} heads cannot be cut over {size} ranks")


class Block(nn.Module):
    """Attention and MLP of `part` of `parts` ranks. With one part it is all of it."""

    def __init__(self, parts=1):
        super().__init__()
        self.parts, self.heads = parts, given.heads // parts
        inner = given.width // parts
        self.before_attention, self.before_mlp = nn.LayerNorm(given.width), nn.LayerNorm(given.width)
        self.queries = nn.Linear(given.width, inner, bias=False)
        self.keys = nn.Linear(given.width, inner, bias=False)
        self.values = nn.Linear(given.width, inner, bias=False)
        self.merge = nn.Linear(inner, given.width, bias=False)
        self.widen = nn.Linear(given.width, 4 * inner, bias=False)
        self.narrow = nn.Linear(4 * inner, given.width, bias=False)

    def summed(self, x):
        if self.parts > 1:
            dist.all_reduce(x)
        return x

    def split(self, x):
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(self, x, past=None):
        y = self.before_attention(x)
        keys, values = self.split(self.keys(y)), self.split(self.values(y))
        if past is not None:  # one character after those that are known
            if past:
                keys, values = torch.cat([past[0], keys], 2), torch.cat([past[1], values], 2)
            past[:] = [keys[:, :, -given.context:], values[:, :, -given.context:]]
        y = nn.functional.scaled_dot_product_attention(self.split(self.queries(y)), keys, values,
                                                       is_causal=past is None)
        x = x + self.summed(self.merge(y.transpose(1, 2).flatten(2)))
        return x + self.summed(self.narrow(nn.functional.gelu(self.widen(self.before_mlp(x)))))


class Writer(nn.Module):
    def __init__(self, parts=1):
        super().__init__()
        self.letters = nn.Embedding(len(LETTERS), given.width)
        self.places = nn.Embedding(given.context, given.width)
        self.blocks = nn.ModuleList(Block(parts) for _ in range(given.blocks))
        self.out = nn.Linear(given.width, len(LETTERS))

    def forward(self, codes, first=0, past=None):
        places = torch.arange(first, first + codes.shape[1]).clamp(max=given.context - 1)
        x = self.letters(codes) + self.places(places)
        for number, block in enumerate(self.blocks):
            x = block(x, None if past is None else past[number])
        return self.out(x)


def cut(whole):
    """This rank's part of the layers: heads, and columns of the MLP; all of the rest."""
    part = Writer(size)
    state = whole.state_dict()
    for name, value in state.items():
        if name.endswith(("queries.weight", "keys.weight", "values.weight", "widen.weight")):
            state[name] = value.chunk(size, 0)[rank]
        elif name.endswith(("merge.weight", "narrow.weight")):
            state[name] = value.chunk(size, 1)[rank]
    part.load_state_dict(state)
    return part


def train(writer):
    model = DistributedDataParallel(writer)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    random = torch.Generator().manual_seed(rank)
    clock = Clock()
    for step in range(given.train):
        starts = torch.randint(len(CODES) - given.context - 1, (8,), generator=random)
        batch = torch.stack([CODES[start:start + given.context + 1] for start in starts])
        with clock:
            optimizer.zero_grad()
            scores = model(batch[:, :-1])
            loss = nn.functional.cross_entropy(scores.flatten(0, 1), batch[:, 1:].flatten())
            loss.backward()
            optimizer.step()
        if step % 40 == 39:
            say(f"step {step + 1}: loss {loss.item():.3f}")
    if given.train:
        say(f"training, {given.backend}, {size} ranks: {clock}")


@torch.no_grad()
def write(writer):
    codes = CODES[:1].repeat(given.texts, 1)
    past, text, clock = [[] for _ in range(given.blocks)], [LETTERS[codes[0, 0]]], Clock()
    for place in range(given.write):
        with clock:
            codes = writer(codes, place, past)[:, -1:].argmax(-1)
        text.append(LETTERS[codes[0, 0]])
    say("".join(text))
    say(f"writing, {given.backend}, {size} ranks, {given.texts * given.width * 4} bytes an "
        f"all_reduce: {clock}")


whole = Writer()
train(whole)
write(cut(whole))
dist.destroy_process_group()
