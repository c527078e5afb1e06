"""The missing 1/sqrt(d_k): what dot products that grow with the width of a head do to gradients and to training."""
