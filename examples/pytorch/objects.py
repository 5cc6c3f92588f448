"""Python objects between ranks: broadcast, gathered, sent. They are pickled, so ranks trust each
other: what unpickles runs code.

    gloo run -n 3 -- python examples/pytorch/objects.py --backend gloo_c
"""

import os

import torch.distributed as dist
from job import options, say

options(__doc__)
rank, size = dist.get_rank(), dist.get_world_size()

settings = [{"rate": 0.1, "layers": (64, 10)} if rank == 0 else None]
dist.broadcast_object_list(settings, 0)

found = [None] * size
dist.all_gather_object(found, {"rank": rank, "process": os.getpid(), **settings[0]})
say("\n".join(str(one) for one in found))

if size > 1:
    if rank == 1:
        dist.send_object_list(["a word from rank 1"], 0)
    if rank == 0:
        words = [None]
        dist.recv_object_list(words, 1)
        say(words[0])
dist.destroy_process_group()
