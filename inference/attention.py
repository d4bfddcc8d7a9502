"""Which attention a model is opened with.

Owns the meaning of the setting `flash_attention`. Where it is `auto`, a model that runs on the CPU alone, with cells of f16,
has its scores written out: llama.cpp's flash attention takes longer there in steps of up to 32 rows, which is what keys, drafts
and windows that type side by side are made of (`python -m bench.attention`; measured on AVX2). All others have what llama.cpp
chooses; quantized cells can't be had without it.
"""

from __future__ import annotations

AUTO, ON, OFF = "auto", "on", "off"


def attention(setting: str, kv_type: str, *, on_cpu: bool) -> str:
    """auto: llama.cpp's choice."""
    return OFF if setting == AUTO and on_cpu and kv_type == "f16" else setting
