"""Rewrite rules, and the facts about a program that they match."""
