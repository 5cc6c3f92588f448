"""A training loop of Ray Train on CPUs: with gloo, with gloo_c under its name, and by the name gloo_c. For
each the driver prints what rank 0 has gathered: the losses of all ranks, and whether the group is gloo_c's."""

import json

import ray
import torch
import torch.distributed as dist
from ray.train import RunConfig, ScalingConfig, get_context
from ray.train.torch import TorchConfig, TorchTrainer, prepare_model
from torch import nn

STEPS, BATCH = 20, 8


def train(given):
    rank = get_context().get_world_rank()
    assert dist.get_world_size() == 2 and dist.get_backend() == given["backend"]
    torch.manual_seed(1)
    model = prepare_model(nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    inputs = torch.randn(STEPS, 2, BATCH, 10)
    losses, every = [], [None, None]
    for step in range(STEPS):
        x = inputs[step, rank]
        loss = nn.functional.mse_loss(model(x), x.sin().sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
    dist.all_gather_object(every, losses)
    import gloo_c.torch
    return every, gloo_c.torch.is_gloo_c()


def main():
    ray.init(num_cpus=3, object_store_memory=80 << 20, include_dashboard=False)
    for run, backend, replace in (("gloo", "gloo", "0"), ("replaced", "gloo", "1"), ("gloo_c", "gloo_c", "0")):
        trainer = TorchTrainer(train, train_loop_config={"backend": backend},
                               torch_config=TorchConfig(backend=backend, timeout_s=120),
                               run_config=RunConfig(worker_runtime_env={"env_vars": {
                                   "GLOO_C_REPLACE_GLOO": replace, "OMP_NUM_THREADS": "1"}}),
                               scaling_config=ScalingConfig(num_workers=2))
        print(f"{run} {json.dumps(trainer.fit().return_value)}", flush=True)
    ray.shutdown()


if __name__ == "__main__":
    main()
