"""Predicts a training step on many ranks: ``binade plan``."""
