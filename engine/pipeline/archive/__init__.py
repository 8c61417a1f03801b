"""Archiving: what topics hold is put into the lake, each message once, whoever is killed at whatever moment."""
