"""A training loop of accelerate on CPUs; every rank prints its losses. Without a launcher it starts two
ranks itself."""

import os

import torch
from accelerate import Accelerator, debug_launcher
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS, BATCH = 20, 8


def train():
    accelerator = Accelerator(cpu=True)
    assert accelerator.num_processes == 2 and torch.distributed.get_backend() == "gloo"
    set_seed(1)
    inputs = torch.randn(STEPS * BATCH * 2, 10)
    data = DataLoader(TensorDataset(inputs, inputs.sin().sum(1, keepdim=True)), batch_size=BATCH, shuffle=True)
    model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    for step, (x, y) in enumerate(data):
        loss = nn.functional.mse_loss(model(x), y)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        every = accelerator.gather(loss.detach().reshape(1))
        print(f"loss {accelerator.process_index} {step} {every.sum().item().hex()}\n", end="", flush=True)
    accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    if "RANK" in os.environ:
        train()
    else:
        debug_launcher(train, num_processes=2)
