"""Train on handwritten digits by DistributedDataParallel, and go on without the ranks that die.

    gloo run -n 4 --min-ranks 1 -- python examples/pytorch/survivors.py --kill 2

Rank 2 kills itself in the middle of a backward pass. The others hear of it, agree on who is left,
and do the step again, with the ranks that are left. Any other process may be killed as well.
"""

import os

import torch
import torch.distributed as dist
from job import backward_of_part, die_in_backward, digits, loss_of_all, network, options
from torch.nn.parallel import DistributedDataParallel

import gloo_c.torch


def shared(module, optimizer, step):
    """All ranks get what rank 0 has: some may have come a step further than others."""
    state = [module.state_dict(), optimizer.state_dict(), step]
    dist.broadcast_object_list(state)
    module.load_state_dict(state[0])
    optimizer.load_state_dict(state[1])
    print(f"process {os.getpid()} is rank {dist.get_rank()} of {dist.get_world_size()}, at step "
          f"{state[2]}", flush=True)
    return DistributedDataParallel(module, bucket_cap_mb=0.01), state[2]


def alike(module):
    """Have all ranks the same parameters, bit for bit?"""
    mine = torch.cat([parameter.detach().flatten() for parameter in module.parameters()])
    all_of_them = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(all_of_them, mine)
    return all(torch.equal(mine.view(torch.int32), other.view(torch.int32))
               for other in all_of_them)


given = options(__doc__, steps=60, kill=-1, at=20)
images, labels = digits()
module = network()
optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
victim = dist.get_rank() == given.kill  # before ranks get other numbers
model, step, done = None, 0, False
while not done:
    try:
        if model is None:
            model, step = shared(module, optimizer, step)
        while step < given.steps:
            if victim and step == given.at:
                die_in_backward(module)
            optimizer.zero_grad()
            backward_of_part(model, images, labels, step)
            optimizer.step()
            step += 1
        loss, same = loss_of_all(model, images, labels), alike(module)
        done = True
    except RuntimeError:
        broken = gloo_c.torch.error()
        if broken is None:
            raise  # it has nothing to do with the other ranks
        print(f"process {os.getpid()}: {broken}", flush=True)
        model = None  # it has the old group, and hooks of its own in the module
        gloo_c.torch.shrink()
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: loss {loss:.4f}, parameters are "
      f"{'the same' if same else 'NOT the same'} on all ranks", flush=True)
dist.destroy_process_group()
