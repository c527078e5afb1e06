"""Induction heads and retrieval heads of whole models, and what goes when they do."""
