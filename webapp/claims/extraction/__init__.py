"""The claims of an abstract, taken by rule: `claims.claims_of`."""
