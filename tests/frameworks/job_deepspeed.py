"""A training loop of DeepSpeed on CPUs for each stage of ZeRO; every rank prints its losses."""

import deepspeed
import torch
from torch import nn

STEPS, BATCH = 10, 8


def train(stage, rank):
    torch.manual_seed(stage)
    model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1))
    inputs = torch.randn(STEPS, 2, BATCH, 10)
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(),
        config={"train_micro_batch_size_per_gpu": BATCH, "gradient_clipping": 1.0,
                "zero_optimization": {"stage": stage},
                "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "torch_adam": True}}})
    for step in range(STEPS):
        x = inputs[step, rank]
        loss = nn.functional.mse_loss(engine(x), x.sin().sum(1, keepdim=True))
        engine.backward(loss)
        engine.step()
        every = loss.detach().clone()
        deepspeed.comm.all_reduce(every)
        print(f"loss {rank} {stage * STEPS + step} {every.item().hex()}\n", end="", flush=True)


def main():
    # It is for inference, and would be compiled for a minute.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed()  # on CPUs it chooses gloo by itself
    assert deepspeed.comm.get_world_size() == 2 and torch.distributed.get_backend() == "gloo"
    for stage in range(4):
        train(stage, deepspeed.comm.get_rank())
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
