"""GLOO_SECURITY=required under PyTorch's names: see test_required.py."""

import pytest

from test_required import WORDS_OF_THE_VARIABLE, check

pytest.importorskip("torch.distributed")

PROGRAMS = {
    "torch": """
import torch.distributed as dist, gloo_c.torch
dist.init_process_group("gloo_c", store=dist.HashStore(), rank=0, world_size=2)
""",
    "torch_one_host": """
import os
os.environ["LOCAL_WORLD_SIZE"] = "2"
import torch.distributed as dist, gloo_c.torch
dist.init_process_group("gloo_c", store=dist.HashStore(), rank=0, world_size=2)
""",
}


@pytest.mark.parametrize("word", WORDS_OF_THE_VARIABLE)
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_no_rank_starts_without_a_secret(name, word, tmp_path):
    check(PROGRAMS[name], word, tmp_path)
