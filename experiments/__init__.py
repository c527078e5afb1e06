"""Experiments on attention: each a script with a seed, a figure, a JSON of numbers and one page of text."""
