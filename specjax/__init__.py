"""Speculative decoding in JAX: any drafter against any target."""

__all__ = ["__version__"]

__version__ = "0.1.0"
