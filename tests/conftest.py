"""Settings of the whole suite, made before torch is loaded."""

import os

# On some virtual machines oneDNN takes the processor's matrix unit (AMX) for its bfloat16 convolutions and dies of an illegal
# instruction, and the worker with it. Without that unit the same tests run on the same numbers.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
