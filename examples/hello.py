"""Every rank contributes its number plus one, and all get the sum.

    gloo run -n 8 -- python hello.py"""

import numpy

import gloo_c

with gloo_c.init() as context:
    total = numpy.array([context.rank + 1], "float32")
    context.allreduce(total)
    size = context.size
    print(f"rank {context.rank} of {size}: 1 + ... + {size} = {total[0]:g}")
