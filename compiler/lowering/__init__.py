"""Passes over modules of primitives: implementation selection, allocation, copies, memory plan, lifetimes."""
