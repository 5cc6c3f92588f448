"""The same digits by a wider network whose parameters are spread over the ranks (FSDP2).

    gloo run -n 2 -- python examples/pytorch/digits_fsdp.py --backend gloo_c
"""

import torch
import torch.distributed as dist
from job import Clock, digits, options, say
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

given = options(__doc__, epochs=4, width=512)
images, labels = digits()
mine = torch.arange(1500)[dist.get_rank()::dist.get_world_size()]

model = nn.Sequential(nn.Linear(64, given.width), nn.ReLU(),
                      nn.Linear(given.width, given.width), nn.ReLU(), nn.Linear(given.width, 10))
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
for layer in model:
    if isinstance(layer, nn.Linear):
        fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
kept = sum(p.to_local().numel() for p in model.parameters())
say(f"rank 0 keeps {kept} of {sum(p.numel() for p in model.parameters())} parameters")

optimizer = torch.optim.Adam(model.parameters(), lr=0.002)
clock = Clock()
for epoch in range(given.epochs):
    total = torch.zeros(())
    for batch in mine[torch.randperm(len(mine))].split(32):
        if len(batch) < 32:
            continue
        with clock:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
            loss.backward()
            optimizer.step()
        total += loss.detach()
    dist.all_reduce(total)
    say(f"epoch {epoch}: loss {total.item() / dist.get_world_size():.3f}")
say(f"{given.backend}, {dist.get_world_size()} ranks: {clock}")
dist.destroy_process_group()
