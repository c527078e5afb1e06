"""How many heads can go: pruning curves after Michel et al. 2019."""
