"""Polymorphic functions and algebraic data types: inference of type arguments, monomorphization, lowering of matches."""
