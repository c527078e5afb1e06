"""Fewer key/value heads: how to make them out of those there are, after Ainslie et al. 2023."""
