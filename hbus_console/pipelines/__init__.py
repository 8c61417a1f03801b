"""The data pipeline as the console has it: which topics are archived, and what the lake holds of them."""
