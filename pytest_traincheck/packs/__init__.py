"""Packs: rules learned from many programs, for a program that has no golden. Beside this code lie those that ship."""
