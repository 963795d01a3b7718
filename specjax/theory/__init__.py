"""Closed forms of the papers, usable inside jit.

Numbers and arrays are taken alike and broadcast; the floating type of the
arguments is kept, whole numbers become floats. A range such as "acceptance in
[0, 1]" is the caller's to keep: no function branches on values. p is the
target's law, q the draft's, whatever letters a paper uses.
"""
