"""Runs the program of docs/guide/elastic.md as a rank, at events that a test can wait for.

usage: torch_page.py PROGRAM VICTIM

The rank whose variable RANK is VICTIM is killed after 20 steps. After 40 steps the ranks wait until a
process waits to join."""

import os
import signal
import sys
import time

import torch
from torch.optim import optimizer

import gloo_c
import gloo_c.elastic

torch.set_num_threads(1)
gloo_c.elastic._LOOK_STEPS = 4
joins = os.environ.get("GLOO_JOIN") == "1"
steps = 0


def after_step(*_):
    global steps
    steps += 1
    if joins or "GLOO_STORE" not in os.environ:
        return
    if steps == 20 and os.environ["RANK"] == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)
    if steps == 40:
        store = gloo_c.UrlStore(os.environ["GLOO_STORE"])
        while store.add("gloo/grow/came", 0) == 0:
            time.sleep(0.01)


optimizer.register_optimizer_step_post_hook(after_step)
with open(sys.argv[1], encoding="utf-8") as program:
    exec(compile(program.read(), sys.argv[1], "exec"))
print(f"this process has made {steps} steps")
