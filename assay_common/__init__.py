"""What the site and the machines that measure share; it knows neither, nor Django.

It lies beside ``methods`` in the checkout, and is installed with it as one distribution.
"""
