"""Train on handwritten digits by DistributedDataParallel, and start again when a rank dies.

    torchrun --standalone --nproc-per-node 3 --max-restarts 2 \\
        examples/pytorch/restarts.py --checkpoint /tmp/digits.pt --kill 1

Rank 1 kills itself, once, in the middle of a backward pass. The others get an error that names it,
and end with that. torchrun starts all anew, and they go on from the checkpoint.
"""

import os

import torch
import torch.distributed as dist
from job import backward_of_part, die_in_backward, digits, loss_of_all, network, options, say
from torch.nn.parallel import DistributedDataParallel


def load(path, module, optimizer):
    """The next step."""
    if not os.path.exists(path):
        return 0
    state = torch.load(path)
    module.load_state_dict(state["module"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"]


def save(path, module, optimizer, step):
    """What is at `path` is whole, whenever this process dies."""
    torch.save({"module": module.state_dict(), "optimizer": optimizer.state_dict(), "step": step},
               path + ".new")
    os.replace(path + ".new", path)


given = options(__doc__, checkpoint="digits.pt", steps=60, every=10, kill=-1, at=25)
images, labels = digits()
module = network()
optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
begin = load(given.checkpoint, module, optimizer)
restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
say(f"restart {restart}: {dist.get_world_size()} ranks, from step {begin}")
model = DistributedDataParallel(module)
for step in range(begin, given.steps):
    if dist.get_rank() == given.kill and step == given.at and restart == "0":
        die_in_backward(module)
    optimizer.zero_grad()
    backward_of_part(model, images, labels, step)
    optimizer.step()
    if (step + 1) % given.every == 0 and dist.get_rank() == 0:
        save(given.checkpoint, module, optimizer, step + 1)
say(f"loss {loss_of_all(model, images, labels):.4f} after {given.steps} steps")
# An error has ended the program before here, and then there is nobody to say goodbye to.
dist.destroy_process_group()
