"""Building the CUDA wheels that hosts need, as fast as memory allows and never beyond it."""
