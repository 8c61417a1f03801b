"""Fetches Spark beside a console that runs, and tells it how far it is.

Started by the Makefile, not by the supervisor, and without Django; by whom it is read see :mod:`.progress`.
"""
