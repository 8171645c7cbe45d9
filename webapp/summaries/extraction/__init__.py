"""The claims of an abstract, taken by rule: `claims_of`."""

from .claims import RuleClaim, claims_of

__all__ = ["RuleClaim", "claims_of"]
