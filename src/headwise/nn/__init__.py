"""Attention as modules: the textbook's layer around `headwise.attention`, its positions, and the caches of decoding."""

from headwise.nn import convert, torch_compat
from headwise.nn.attention import MultiHeadAttention
from headwise.nn.cache import Cache, KVCache
from headwise.nn.config import AttentionConfig
from headwise.nn.differential import DifferentialAttention
from headwise.nn.latent import LatentAttention
from headwise.nn.paged import PagedCache
from headwise.nn.pool import PagePool
from headwise.nn.quantised import QuantisedCache
from headwise.nn.ring import RingCache
from headwise.nn.rotary import Axes, Rotary
from headwise.nn.scaling import DynamicNTK, Linear, Llama3, LongRope, Yarn
from headwise.nn.static import StaticCache
from headwise.nn.transformer import Transformer

__all__ = [
    "AttentionConfig",
    "Axes",
    "Cache",
    "DifferentialAttention",
    "DynamicNTK",
    "KVCache",
    "LatentAttention",
    "Linear",
    "Llama3",
    "LongRope",
    "MultiHeadAttention",
    "PagePool",
    "PagedCache",
    "QuantisedCache",
    "RingCache",
    "Rotary",
    "StaticCache",
    "Transformer",
    "Yarn",
    "convert",
    "torch_compat",
]
