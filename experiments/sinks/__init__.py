"""Perplexity past the trained length, with a window, with and without the first tokens."""
