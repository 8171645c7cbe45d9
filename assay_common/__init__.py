"""Helpers that the site and the machines that measure share; they import neither, nor Django.

It lies beside ``methods`` in the checkout, and is installed with it as one distribution.
"""

__version__ = "0.1.0"  # of Assay: its site, its workers and its methods have the same
