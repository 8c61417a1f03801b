"""How the features of the console are declared, collected and resolved on first use."""
