"""The questions that the lab asks: small enough that every row says how old its inputs were."""
