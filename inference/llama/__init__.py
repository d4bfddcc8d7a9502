"""llama.cpp through the low-level llama_cpp bindings: the only package that imports them."""
