"""Induction heads form together with in-context learning, in models trained here."""
