"""The typing rules that type inference applies."""
