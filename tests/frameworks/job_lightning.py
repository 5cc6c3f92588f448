"""A network trained by Lightning on CPUs; every rank prints its losses.

usage: job_lightning.py ddp|ddp_spawn"""

import sys

import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS, BATCH = 10, 8


class Network(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1))

    def training_step(self, batch, index):
        loss = nn.functional.mse_loss(self.layers(batch[0]), batch[1])
        print(f"loss {self.global_rank} {index} {loss.item().hex()}\n", end="", flush=True)
        self.log("loss", loss, sync_dist=True)
        return loss

    def on_train_end(self):
        assert torch.distributed.get_world_size() == 2 and torch.distributed.get_backend() == "gloo"

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


if __name__ == "__main__":
    lightning.seed_everything(1)
    inputs = torch.randn(STEPS * BATCH * 2, 10)
    data = DataLoader(TensorDataset(inputs, inputs.sin().sum(1, keepdim=True)), batch_size=BATCH, shuffle=True)
    start = {"ddp": "popen", "ddp_spawn": "spawn"}[sys.argv[1]]
    trainer = lightning.Trainer(
        accelerator="cpu", devices=2, strategy=DDPStrategy(process_group_backend="gloo", start_method=start),
        max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False)
    trainer.fit(Network(), data)
