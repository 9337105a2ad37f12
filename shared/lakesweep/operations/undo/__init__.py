"""The reversal of earlier runs."""
