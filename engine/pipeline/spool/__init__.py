"""The spool: what a transport forgets once it is settled is put on disk first, and can be read again from there."""
