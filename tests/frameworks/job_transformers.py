"""A small GPT-2, made from its configuration, trained by transformers' Trainer on CPUs; every rank prints
the losses."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed

STEPS = 12


class Tokens(torch.utils.data.Dataset):
    """Sequences that count, each from another number."""

    def __len__(self):
        return 96

    def __getitem__(self, index):
        tokens = (torch.arange(16) * 3 + index) % 64
        return {"input_ids": tokens, "labels": tokens}


class Losses(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **others):
        if "loss" in logs:
            print(f"loss {args.process_index} {state.global_step} {float(logs['loss']).hex()}\n", end="", flush=True)


set_seed(1)
arguments = TrainingArguments(
    output_dir="trained", use_cpu=True, ddp_backend="gloo", max_steps=STEPS, per_device_train_batch_size=4,
    learning_rate=0.01, logging_steps=1, save_steps=STEPS, report_to=[], disable_tqdm=True)
model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2))
trainer = Trainer(model, arguments, train_dataset=Tokens(), callbacks=[Losses()])
trainer.train()
assert arguments.world_size == 2 and torch.distributed.get_backend() == "gloo"
torch.distributed.destroy_process_group()
