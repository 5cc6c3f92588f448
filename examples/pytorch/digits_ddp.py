"""Train a small network on handwritten digits, each rank on its part, by DistributedDataParallel.

    gloo run -n 4 -- python examples/pytorch/digits_ddp.py --backend gloo_c
"""

import torch
import torch.distributed as dist
from job import Clock, digits, options, say
from torch import nn
from torch.nn.parallel import DistributedDataParallel

given = options(__doc__, epochs=8)
images, labels = digits()
mine = torch.arange(1500)[dist.get_rank()::dist.get_world_size()]

model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
clock = Clock()
for epoch in range(given.epochs):
    for batch in mine[torch.randperm(len(mine))].split(16):
        if len(batch) < 16:
            continue  # ranks make the same number of steps
        with clock:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()
    # Each rank looks at its part of the test, and all add up what they found.
    part = torch.arange(1500, 1797)[dist.get_rank()::dist.get_world_size()]
    with torch.no_grad():
        right = (model(images[part]).argmax(1) == labels[part]).sum()
    dist.all_reduce(right)
    say(f"epoch {epoch}: {right.item() / 297:.1%} right")
say(f"{given.backend}, {dist.get_world_size()} ranks: {clock}")
dist.destroy_process_group()
