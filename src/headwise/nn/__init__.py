"""Attention as modules: the textbook's layer around `headwise.attention`, and the cache that decoding needs."""

from headwise.nn.attention import MultiHeadAttention
from headwise.nn.cache import KVCache

__all__ = ["KVCache", "MultiHeadAttention"]
