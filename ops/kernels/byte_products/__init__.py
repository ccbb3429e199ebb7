"""Matrix products of 8-bit integers, exact in int32."""
